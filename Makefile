# Recipes. `make help` lists them.

TARGET := $(or $(CARGO_TARGET_DIR),target)
STEP_BENCH := $(TARGET)/dist/examples/step_bench
CONVOLUTION_BENCH := $(TARGET)/dist/examples/convolution_bench
# The load generators are built like tests, but optimised.
MEASURE := OSTARD=$(abspath $(TARGET))/dist/ostard cargo bench --profile dev --workspace \
	--config profile.dev.package.ostar-tests.opt-level=3
# The program that recipes run, unless OSTARD names another: that of the tests, which has the image's features.
ifndef OSTARD
export OSTARD := $(abspath $(TARGET))/debug/ostard-under-test
BUILT := program
endif
TORCH := target/torch/bin/python
TORCH_READY := target/torch/ready

.DEFAULT_GOAL := help
.PHONY: help check test test-rest test-all format lint docs bench bench-step bench-convolution bench-onnx bench-throughput bench-latency bench-open-inference bench-page bench-refused bench-waiting bench-hostile bench-roles ledger ledger-distributed chaos check-cuda
.PHONY: dashboards lint-dashboards check-dashboards page-library screenshots
.PHONY: program generate check-generated check-chart check-chart-server check-models check-pytorch
.PHONY: demo check-tls check-docs check-shape check-image check-image-files deny advisories sbom

help: ## This list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: test-all format lint docs lint-dashboards check-generated check-chart check-models check-docs check-shape check-image-files check-tls deny ## All that CI asks for.

test: ## The quick tests: minutes, with nothing but Rust.
	cargo test

test-rest: ## All other tests: Kafka, Prometheus, Chromium, optional features (scripts/install-browser gets Chromium).
	python3 scripts/test_rest.py

test-all: ## Both in one go.
	cargo test --workspace

format: ## Checks the format of the code.
	cargo fmt --all --check

lint: ## Clippy on every target, with all features and with those of cargo run.
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --all-targets -- -D warnings

docs: ## Builds the crates' documentation; warnings fail.
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

bench: ## Times the parts of an alignment step.
	cargo bench -p ostar-engine --bench steps

bench-step: $(TORCH_READY) ## One alignment step against PyTorch, at both sizes of docs/BENCHMARKS.md.
	cargo build --profile dist -p ostar-engine --example step_bench
	$(TORCH) scripts/compare_steps.py $(STEP_BENCH) --rounds 5
	$(TORCH) scripts/compare_steps.py $(STEP_BENCH) --rounds 5 -- --critic 100,100 --nv 5

bench-convolution: $(TORCH_READY) ## A training batch of the digits encoder against PyTorch.
	cargo build --profile dist -p ostar-engine --example convolution_bench
	$(TORCH) scripts/compare_steps.py $(CONVOLUTION_BENCH) --rounds 5 --peer scripts/torch_convolution.py

bench-onnx: ## ONNX encoders against onnxruntime: a batch of 256 on one thread, MLP and CNN (minutes).
	cargo build --profile dist -p ostard --features onnx
	cargo build --profile dist -p ostar-bundle --features onnx --example onnx_bench
	"$$(scripts/tool python examples/models/requirements-onnx.txt)" scripts/compare_onnx.py $(TARGET)/dist/ostard \
		$(TARGET)/dist/examples/onnx_bench

bench-throughput: ## Events per second through the daemon, compared with a consumer that discards them (minutes; THROUGHPUT=--predictions writes predictions, too).
	cargo build --profile dist -p ostard --features schemas
	$(MEASURE) --bench throughput -- $(THROUGHPUT)

bench-latency: ## Latency of requests with the learner working and paused, and under overload (minutes).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench latency

bench-page: ## Cost of the live page, with and without a viewer (12 minutes).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench page

bench-refused: ## Resident memory while an output is refused for five minutes (REFUSED='--seconds 60' changes that).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench refused -- $(REFUSED)

bench-waiting: ## Resident memory while events wait half an hour for a click, at 1,000 events a second of event time (minutes; WAITING='--id-bytes 36' for ids as long as UUIDs).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench waiting -- $(WAITING)

bench-hostile: ## An honest client's latency beside clients that stall and flood, and the daemon's memory (12 minutes).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench hostile -- $(HOSTILE)

bench-roles: ## Scorers and a learner: delay of snapshots, size of the state topic, CPU by role (minutes; ROLES=--follow or --cost runs one half).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench roles -- $(ROLES)

ledger: ## Events and outputs while everything breaks: three seeds, five minutes each (LEDGER='--seeds 7 --seconds 60' changes that).
	cargo bench --profile dev --workspace --bench ledger -- $(LEDGER)

chaos: ## The ledger with hostile clients, freezes, a bad network, a full disk and witnesses: three seeds, ten minutes each (CHAOS='--seeds 7 --seconds 60').
	cargo bench --profile dev --workspace --bench ledger -- --chaos $(or $(CHAOS),--seconds 600)

ledger-distributed: ## The same with scorers, learners and three brokers that come and go (LEDGER='--seeds 7 --events 20000' changes that).
	cargo bench --profile dev --workspace --bench ledger_distributed -- $(LEDGER)

bench-open-inference: ## Requests per second and latency, compared with MLServer (minutes).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench open_inference

dashboards: ## Generates the Grafana dashboards.
	cd dashboards && python3 -B -m generator

lint-dashboards: ## grafana/dashboard-linter in strict mode, Grafana's schema (Go; minutes the first time).
	scripts/lint-dashboards

check-dashboards: lint-dashboards ## Dashboards and alerts: linter, schema, promtool, and a real Prometheus on the demo.
	OSTARD_REQUIRE_SERVICES=1 cargo test -p ostar-tests --test dashboards

page-library: ## Downloads the live page's chart library, which is checked in.
	scripts/fetch-page-library

screenshots: ## The README's pictures of the live page, made by its test (needs Node and Chromium).
	SCREENSHOTS=$(abspath docs/images) cargo test -p ostar-tests --test page

generate: $(BUILT) ## Writes the configuration reference, the chart's schema and README, and its copy of the dashboards.
	python3 scripts/generate.py

check-generated: $(BUILT) ## Checks that the generated files are up to date.
	python3 scripts/generate.py --check

check-chart: $(BUILT) ## The Helm chart: linted, rendered and held to the Kubernetes schemas and to kube-score.
	HELM="$$(scripts/tool helm)" KUBE_SCORE="$$(scripts/tool kube-score)" "$$(scripts/tool python tests/chart/requirements.txt)" tests/chart/test_chart.py

check-tls: $(BUILT) ## The TLS of the listeners, looked at by sslyze.
	"$$(scripts/tool python tests/security/requirements.txt)" tests/security/check_tls.py

check-chart-server: ## The chart on a real API server: dry run of every values file (builds it: half an hour the first time).
	scripts/check-chart-server

check-models: $(BUILT) ## Exports models of scikit-learn and LightGBM, also as ONNX, and compares the daemon's predictions with theirs.
	scripts/check-models

check-pytorch: $(BUILT) ## The same of PyTorch models (downloads PyTorch; PYTHON=python3 takes an installed one).
	scripts/check-models pytorch

check-docs: ## Checks the links of the documents, and that the forge's CI runs the recipes of .ci/run.
	python3 scripts/check_links.py
	python3 scripts/check_forge.py

check-shape: ## Checks that no crate depends on one above it, and that no modules of a product crate depend on each other in a circle.
	python3 scripts/check_shape.py

check-image-files: ## Lints the Dockerfiles and the compose file.
	"$$(dirname "$$(scripts/tool python tests/chart/requirements.txt)")/hadolint" Dockerfile Dockerfile.cuda
	"$$(scripts/tool compose)" examples/compose/compose.yaml >/dev/null

check-image: check-image-files ## The same, and checks that the image's program runs on its base (minutes; Debian 12).
	cargo build --profile dist -p ostard --features tls,parquet,schemas,onnx,candle
	scripts/check-image-binary $(TARGET)/dist/ostard

deny: ## Checks licences, sources and versions of all dependencies.
	"$$(scripts/tool cargo-deny)" --offline check --hide-inclusion-graph licenses sources bans

advisories: ## Checks dependencies for known vulnerabilities (downloads the RustSec database).
	"$$(scripts/tool cargo-deny)" check advisories

sbom: ## A CycloneDX bill of materials of the image's program, daemon/ostard.cdx.json.
	"$$(scripts/tool cargo-cyclonedx)" cyclonedx --manifest-path daemon/Cargo.toml --format json --spec-version 1.5 \
		--features tls,parquet,schemas,onnx,candle --target x86_64-unknown-linux-gnu --override-filename ostard.cdx

demo: ## Runs the demo for 15 seconds.
	cargo run --release -- demo --seconds 15 --json

# With the features of the whole workspace, as tests build it: nothing is compiled twice.
program:
	cargo build --workspace --bin ostard-under-test

check-cuda: ## Type-checks and links the cuda feature, without a GPU (half an hour the first time).
	scripts/check-cuda

$(TORCH_READY):
	python3 -m venv target/torch
	$(TORCH) -m pip install --quiet torch numpy scipy safetensors
	touch $@
