# Recipes. `make help` lists them.

TARGET := $(or $(CARGO_TARGET_DIR),target)
STEP_BENCH := $(TARGET)/dist/examples/step_bench
CONVOLUTION_BENCH := $(TARGET)/dist/examples/convolution_bench
# The client's side is built as tests are, but optimised.
MEASURE := OSTARD=$(abspath $(TARGET))/release/ostard cargo bench --profile dev -p ostar-tests \
	--config profile.dev.package.ostar-tests.opt-level=3
TORCH := target/torch/bin/python
TORCH_READY := target/torch/ready

.DEFAULT_GOAL := help
.PHONY: help check test format lint docs bench bench-step bench-convolution bench-throughput bench-latency check-cuda

help: ## This list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: test format lint docs ## All that CI asks for.

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

bench-convolution: $(TORCH_READY) ## A training batch of the digits encoder against PyTorch.
	cargo build --profile dist -p ostar-model --example convolution_bench
	$(TORCH) scripts/compare_steps.py $(CONVOLUTION_BENCH) --rounds 5 --peer scripts/torch_convolution.py

bench-throughput: ## Events a second through the daemon against an empty consumer, real broker (minutes).
	cargo build --release -p ostard
	$(MEASURE) --bench throughput

bench-latency: ## Latency of requests with the learner working and paused, and under overload (minutes).
	cargo build --release -p ostard
	$(MEASURE) --bench latency

check-cuda: ## Type-check of the cuda feature, without a GPU (minutes).
	scripts/check-cuda

$(TORCH_READY):
	python3 -m venv target/torch
	$(TORCH) -m pip install --quiet torch numpy scipy safetensors
	touch $@
