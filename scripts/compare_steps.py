#!/usr/bin/env python3
"""Times our alignment step (or training batch) and PyTorch's in turns, and prints the ratio of their medians.

    python scripts/compare_steps.py STEP_BENCH [--rounds 5] [--seconds 4] [--peer scripts/torch_step.py] [-- OPTIONS]

STEP_BENCH is the built example; OPTIONS (such as --critic 100,100 --nv 5) go to both. The two alternate, so that a
machine that slows down slows both. The ratio is the median of the rounds' ratios.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path


def run(command):
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().splitlines()
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step_bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--peer", default=str(Path(__file__).resolve().parent / "torch_step.py"))
    own, _, both = " ".join(sys.argv[1:]).partition(" -- ")
    o, both = parser.parse_args(own.split()), both.split() + []
    both += ["--seconds", str(o.seconds)]
    rounds = []
    for number in range(o.rounds):
        ours = run([o.step_bench, *both])
        peer = run([sys.executable, o.peer, *both])
        rounds.append((ours, peer))
        floor = f", GEMM floor {ours['gemm_floor_ms']:.1f} ms" if "gemm_floor_ms" in ours else ""
        print(f"round {number + 1}: ours {ours['median_ms']:.1f} ms, peer {peer['median_ms']:.1f} ms{floor}", file=sys.stderr)
    median = lambda values: round(statistics.median(values), 3)
    # convolution_bench does not measure the matrix products alone.
    floors = {
        "gemm_floor_ms": median(ours["gemm_floor_ms"] for ours, _ in rounds),
        "times_floor": median(ours["times_floor"] for ours, _ in rounds),
        "mflop": rounds[0][0]["mflop"],
    } if "gemm_floor_ms" in rounds[0][0] else {}
    print(json.dumps({
        "peer": rounds[0][1]["peer"],
        "options": " ".join(both),
        "ours_ms": median(ours["median_ms"] for ours, _ in rounds),
        "peer_ms": median(peer["median_ms"] for _, peer in rounds),
        "ratio": median(peer["median_ms"] / ours["median_ms"] for ours, peer in rounds),
        **floors,
    }))


if __name__ == "__main__":
    main()
