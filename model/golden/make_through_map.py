#!/usr/bin/env python3
"""Golden vectors of stage SSg with the gradient through the map, as the paper's equation has it.

    python make_through_map.py OUT_DIR [SEED]

Adds the cases `encoder_mlp_through_map` and `encoder_conv_through_map` to OUT_DIR and its index.json. They differ from
make_golden.py's `encoder_mlp` and `encoder_conv` in one thing: phi is not under `no_grad`, so the loss of mapped source
rows reaches g. A file of its own, so that the other cases keep their random numbers.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from make_golden import (Classifier, ConvEncoder, MlpEncoder, Phi, Writer, conditional_entropy, marginal_entropy, named,
                         weighted_cross_entropy)


def main():
    out, seed = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20222
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    write = Writer(out)
    write.index = json.loads((out / "index.json").read_text())
    d, k, nb = 16, 4, 24
    p_n = torch.as_tensor(rng.dirichlet(np.ones(k) * 2))
    p_s = torch.as_tensor(rng.dirichlet(np.ones(k) * 4))
    phi, f_n, f_s = Phi(d, 3), Classifier(d, 14, k), Classifier(d, 14, k)
    # Running statistics that are not those of a fresh network: phi is in evaluation mode below.
    with torch.no_grad():
        for _ in range(20):
            phi(torch.as_tensor(rng.normal(size=(nb, d))) * 1.5 + 0.3)
    phi.eval(), f_s.eval()

    for name, enc, shape in (("encoder_mlp", MlpEncoder(10, 18, d), (10,)), ("encoder_conv", ConvEncoder(4, 5, d), (1, 32, 32))):
        x_s, x_t = (torch.as_tensor(rng.normal(size=(nb, *shape))) for _ in range(2))
        y = torch.as_tensor(rng.integers(0, k, nb))
        before, f_before = named("g", enc), named("f_n", f_n)
        for module in (enc, f_n, f_s, phi):
            module.zero_grad()
        z = enc(torch.cat([x_s, x_t]))
        z_s, z_t = z[:nb], z[nb:]
        ce_n = weighted_cross_entropy(f_n(phi(z_s)[0]), y, p_n / p_s)
        logits_t = f_n(z_t)
        h, m = conditional_entropy(logits_t), marginal_entropy(logits_t)
        ce_s = F.cross_entropy(f_s(z_s), y)
        loss = 0.7 * ce_n + 0.3 * h - 0.2 * m + ce_s
        loss.backward()
        grads = {n: t for n, t in (named("g", enc, grads=True) | named("f_n", f_n, grads=True)).items() if n.startswith("grad.")}
        write.case(f"{name}_through_map",
                   {"x_s": x_s, "x_t": x_t, "y": y, "ratios": p_n / p_s, "z": z.detach(), **before, **f_before, **grads,
                    **named("f_s", f_s), **named("phi", phi)},
                   loss=loss, ce_n=ce_n, entropy=h, marginal_entropy=m, ce_s=ce_s, clf_weight=0.7, ent_weight=0.3, div_weight=0.2)
    write.close()


if __name__ == "__main__":
    main()
