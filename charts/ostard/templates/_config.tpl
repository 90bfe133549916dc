{{/* The daemon's configuration: what the chart sets, overridden by what the user sets. */}}
{{- define "ostard.config" -}}
{{- $config := dict
  "bundle" (dict "path" "/model")
  "checkpoints" (dict "folder" "/state/checkpoints")
  "grpc" (dict "listen" "0.0.0.0:50051")
  "http" (dict "listen" "0.0.0.0:8080")
  "log" (dict "format" "json") -}}
{{- if include "ostard.isDistributed" . }}
{{- $_ := set $config "checkpoints" (dict "store" "kafka") }}
{{- end }}
{{- if .Values.gpu.enabled }}
{{- $_ := set $config "learner" (dict "device" "cuda:0") }}
{{- end }}
{{- if .Values.control.enabled }}
{{- $_ := set $config.grpc "control_listen" "0.0.0.0:50052" }}
{{- end }}
{{- with .Values.tls.existingSecret }}
{{- $_ := set $config "tls" (dict "certificate" "/etc/ostard/tls/tls.crt" "key" "/etc/ostard/tls/tls.key") }}
{{- with $.Values.tls.clientCaKey }}
{{- $_ := set $config.tls "client_ca" (printf "/etc/ostard/tls/%s" .) }}
{{- end }}
{{- end }}
{{- if .Values.auth.existingSecret }}
{{- $_ := set $config "auth" (dict "token_file" (printf "/etc/ostard/auth/%s" .Values.auth.key)) }}
{{- end }}
{{- $files := dict }}
{{- range .Values.kafka.secrets }}
{{- $secret := .name }}
{{- range $option, $key := .options }}
{{- $_ := set $files $option (printf "/etc/ostard/kafka/%s/%s" $secret $key) }}
{{- end }}
{{- end }}
{{- if $files }}
{{- $_ := set $config "kafka" (dict "options_from_files" $files) }}
{{- end }}
{{- mergeOverwrite $config (deepCopy .Values.config) | toYaml }}
{{- end }}
