#!/usr/bin/env python3
"""Time of one alignment step in PyTorch, as a user would write it: what `step_bench` is compared with.

    python scripts/torch_step.py [--d 128 --nb 200 --nv 10 --critic 500,100 --blocks 10 --hidden 100 --k 10]
                                 [--rows 10000] [--threads 2] [--seconds 8] [--im]

The networks and objectives are those of the golden vectors' script. Buffers are resident, batches are gathered by
random row, Adam is the fused one. Prints one JSON line.
"""
import argparse
import json
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "model" / "tests" / "golden"))
import make_golden as ostar  # noqa: E402


def options():
    parser = argparse.ArgumentParser()
    for name, default in dict(d=128, nb=200, nv=10, blocks=10, hidden=100, k=10, rows=10_000, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--critic", default="500,100", help="two widths")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--im", action="store_true", help="entropy of target predictions in the classifier's step")
    return parser.parse_args()


class Loop:
    def __init__(self, o):
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(o.threads)
        torch.manual_seed(0)
        first, second = map(int, o.critic.split(","))
        self.o = o
        self.phi, self.critic = ostar.Phi(o.d, o.blocks), ostar.Critic(o.d, first, second)
        self.f_n = ostar.Classifier(o.d, o.hidden, o.k)
        networks = self.phi, self.critic, self.f_n
        self.adam = [torch.optim.Adam(n.parameters(), lr=1e-4, betas=(0.5, 0.999), fused=True) for n in networks]
        self.labels = torch.randint(o.k, (o.rows,))
        self.source = torch.randn(o.rows, o.d) + self.labels[:, None] * 0.3
        self.target = torch.randn(o.rows, o.d) * 1.2
        self.p_n = torch.ones(o.k) / o.k

    def batch(self):
        i, j = torch.randint(self.o.rows, (self.o.nb,)), torch.randint(self.o.rows, (self.o.nb,))
        return self.source[i], self.labels[i], self.target[j]

    @staticmethod
    def step(adam, loss):
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()

    def iterate(self):
        opt_phi, opt_v, opt_f = self.adam
        self.critic.requires_grad_(True)
        for _ in range(self.o.nv):
            z_s, y, z_t = self.batch()
            with torch.no_grad():
                z_n = self.phi(z_s)[0]
            weights = ostar.source_weights(y, self.p_n)
            self.step(opt_v, ostar.critic_loss(self.critic, z_n, z_t, weights, torch.rand(self.o.nb, 1), 10.0)[0])
        self.critic.requires_grad_(False)
        self.step(opt_phi, ostar.phi_loss(self.critic, self.phi, z_s, y, z_t, weights, 0.01, self.o.k)[0])
        with torch.no_grad():
            z_n = self.phi(z_s)[0]
        loss = ostar.weighted_cross_entropy(self.f_n(z_n), y, self.p_n * self.o.k)
        if self.o.im:
            loss = loss + 0.1 * ostar.conditional_entropy(self.f_n(z_t))
        self.step(opt_f, loss)


def main():
    o = options()
    loop = Loop(o)
    for _ in range(5):
        loop.iterate()
    times, end = [], time.perf_counter() + o.seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        loop.iterate()
        times.append(time.perf_counter() - start)
    median = sorted(times)[len(times) // 2]
    print(json.dumps({"peer": f"torch {torch.__version__}", "threads": o.threads, "steps": len(times),
                      "median_ms": round(1e3 * median, 3)}))


if __name__ == "__main__":
    main()
