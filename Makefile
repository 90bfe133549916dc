# Recipes. `make help` lists them.

TARGET := $(or $(CARGO_TARGET_DIR),target)
STEP_BENCH := $(TARGET)/dist/examples/step_bench
# The client's side is built as tests are, but optimised.
MEASURE := OSTARD=$(abspath $(TARGET))/dist/ostard cargo bench --profile dev -p ostar-tests \
	--config profile.dev.package.ostar-tests.opt-level=3
TORCH := target/torch/bin/python
TORCH_READY := target/torch/ready

.DEFAULT_GOAL := help
.PHONY: help check test format lint docs bench bench-step bench-throughput bench-latency bench-open-inference bench-page check-cuda
.PHONY: dashboards lint-dashboards check-dashboards page-library screenshots

help: ## This list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: test format lint docs lint-dashboards ## All that CI asks for.

test: ## All tests.
	cargo test --workspace

format: ## Is the code formatted?
	cargo fmt --all --check

lint: ## Clippy on every target, with and without the candle engine.
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy -p ostar-model --all-targets --no-default-features -- -D warnings

docs: ## The crates' documentation, without a warning.
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

bench: ## Times of a step's parts.
	cargo bench -p ostar-model --bench steps

bench-step: $(TORCH_READY) ## One alignment iteration against PyTorch, at both sizes of docs/BENCHMARKS.md.
	cargo build --profile dist -p ostar-model --example step_bench
	$(TORCH) scripts/compare_steps.py $(STEP_BENCH) --rounds 5
	$(TORCH) scripts/compare_steps.py $(STEP_BENCH) --rounds 5 -- --critic 100,100 --nv 5

bench-throughput: ## Events a second through the daemon against an empty consumer, real broker (minutes).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench throughput

bench-latency: ## Latency of requests with the learner working and paused, and under overload (minutes).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench latency

bench-page: ## What the live page costs the daemon, with and without a viewer (12 minutes).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench page

bench-open-inference: ## Requests a second and latency beside MLServer with the same network (minutes).
	cargo build --profile dist -p ostard
	$(MEASURE) --bench open_inference

dashboards: ## Writes the Grafana dashboards anew.
	cd dashboards && python3 -B -m generator

lint-dashboards: ## grafana/dashboard-linter in strict mode, Grafana's schema (Go; minutes the first time).
	scripts/lint-dashboards

check-dashboards: lint-dashboards ## Dashboards and alerts: linter, schema, promtool, and a real Prometheus on the demo.
	OSTARD_REQUIRE_SERVICES=1 cargo test -p ostar-tests --test dashboards

page-library: ## Fetches the live page's chart library, which is checked in.
	scripts/fetch-page-library

screenshots: ## The README's pictures of the live page, made by its test (needs Node and Chromium).
	SCREENSHOTS=$(abspath docs/images) cargo test -p ostar-tests --test page

check-cuda: ## Type-check of the cuda feature, without a GPU (minutes).
	scripts/check-cuda

$(TORCH_READY):
	python3 -m venv target/torch
	$(TORCH) -m pip install --quiet torch numpy scipy safetensors
	touch $@
