// Schema checks dashboards against Grafana's published schema: no unknown field, none missing, every panel's options
// included.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	// The schemas of the panel types.
	plugins.RegisterDefaultPlugins()
	failed := false
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	withoutFormats(fields)
	known, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	parsed := dashboard.Dashboard{}
	if err := parsed.UnmarshalJSONStrict(known); err != nil {
		return err
	}
	return parsed.Validate()
}

// withoutFormats leaves out what the schema does not know: fields that annotations by Prometheus have on top.
func withoutFormats(fields map[string]any) {
	annotations, _ := fields["annotations"].(map[string]any)
	list, _ := annotations["list"].([]any)
	for _, annotation := range list {
		if annotation, ok := annotation.(map[string]any); ok {
			delete(annotation, "titleFormat")
			delete(annotation, "textFormat")
		}
	}
}
