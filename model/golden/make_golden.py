#!/usr/bin/env python3
"""Golden vectors for the OSTAR step, from an independent PyTorch implementation in double precision.

    python make_golden.py OUT_DIR [SEED]

Writes OUT_DIR/<case>.safetensors (inputs, weights, expected values, all float64) and OUT_DIR/index.json
(shapes and scalars of each case). Needs torch, numpy, scipy, safetensors. It shares no code with the crate
it checks; where the two differ, find out which one is wrong before changing either.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from scipy.optimize import minimize
from torch import nn

torch.set_default_dtype(torch.float64)


# ---- networks -----------------------------------------------------------------------------------------

class Block(nn.Module):
    """x -> (x + r, r) with r = fc2(relu(bn(fc1(x))))."""

    def __init__(self, d):
        super().__init__()
        self.fc1, self.bn, self.fc2 = nn.Linear(d, d), nn.BatchNorm1d(d), nn.Linear(d, d)

    def forward(self, x):
        r = self.fc2(F.relu(self.bn(self.fc1(x))))
        return x + r, r


class Phi(nn.Module):
    def __init__(self, d, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Block(d) for _ in range(blocks))

    def forward(self, x):
        residuals = []
        for block in self.blocks:
            x, r = block(x)
            residuals.append(r)
        return x, residuals


class Critic(nn.Module):
    def __init__(self, d, h1, h2):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(d, h1), nn.Linear(h1, h2), nn.Linear(h2, 1)

    def forward(self, z):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(z))))).squeeze(1)


class Classifier(nn.Module):
    def __init__(self, d, h, k):
        super().__init__()
        self.fc1, self.bn1 = nn.Linear(d, h), nn.BatchNorm1d(h)
        self.fc2, self.bn2 = nn.Linear(h, h), nn.BatchNorm1d(h)
        self.fc3 = nn.Linear(h, k)

    def forward(self, z):
        z = F.relu(self.bn1(self.fc1(z)))
        z = F.relu(self.bn2(self.fc2(z)))
        return self.fc3(z)


class MlpEncoder(nn.Module):
    def __init__(self, n_in, h, d):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(n_in, h), nn.Linear(h, d)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


class ConvEncoder(nn.Module):
    """The digits encoder: three 5x5 convolutions without padding; 1x32x32 -> d."""

    def __init__(self, c1, c2, d):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, c1, 5), nn.BatchNorm2d(c1)
        self.conv2, self.bn2 = nn.Conv2d(c1, c2, 5), nn.BatchNorm2d(c2)
        self.conv3, self.bn3 = nn.Conv2d(c2, d, 5), nn.BatchNorm2d(d)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.bn1(self.conv1(x)), 2))
        x = F.relu(F.max_pool2d(self.bn2(self.conv2(x)), 2))
        return self.bn3(self.conv3(x)).flatten(1)


# ---- objectives ---------------------------------------------------------------------------------------

def class_counts(y, k):
    return torch.bincount(y, minlength=k).to(torch.get_default_dtype())


def source_weights(y, p_n):
    """omega_i = p_N[y_i] / n_{y_i}, rescaled so that it sums to 1 when a class is absent from the batch."""
    w = p_n[y] / class_counts(y, len(p_n))[y]
    return w / w.sum()


def wasserstein(critic, z_n, z_t, w):
    return (w * critic(z_n)).sum() - critic(z_t).mean()


def gradient_penalty(critic, z_n, z_t, alpha):
    points = torch.cat([z_n + alpha * (z_t - z_n), z_n, z_t]).detach().requires_grad_()
    (g,) = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
    return ((g.norm(dim=1) - 1) ** 2).mean()


def critic_loss(critic, z_n, z_t, w, alpha, gamma):
    wd = wasserstein(critic, z_n, z_t, w)
    gp = gradient_penalty(critic, z_n, z_t, alpha)
    return -wd + gamma * gp, wd, gp


def transport_cost(residuals, y, k):
    """Dynamical transport cost: sum over blocks and classes of the class mean of ||r||^2."""
    per_class = 1.0 / class_counts(y, k)[y]
    return sum((per_class * (r ** 2).sum(1)).sum() for r in residuals)


def phi_loss(critic, phi, z_s, y, z_t, w, lambda_ot, k):
    z_n, residuals = phi(z_s)
    wd = wasserstein(critic, z_n, z_t, w)
    ot = transport_cost(residuals, y, k)
    return wd + lambda_ot * ot, wd, ot


def weighted_cross_entropy(logits, y, ratios):
    """Class-ratio weighted cross-entropy, normalised by the sum of the batch's weights."""
    return F.cross_entropy(logits, y, weight=ratios)


def conditional_entropy(logits):
    return -(F.softmax(logits, 1) * F.log_softmax(logits, 1)).sum(1).mean()


def marginal_entropy(logits):
    p = F.softmax(logits, 1).mean(0)
    return -(p * torch.log(p + 1e-5)).sum()


def estimate_proportions(c, q):
    """argmin over w >= 0, sum_j D_j w_j = 1 (D the column sums of C) of 1/2 ||q - C w||^2, as p = D * w."""
    d = c.sum(0)
    k = len(q)

    def f(w):
        r = c @ w - q
        return 0.5 * r @ r, c.T @ r

    best = None
    for start in (np.ones(k), q / d):
        res = minimize(f, start / (d @ start), jac=True, method="SLSQP", bounds=[(0, None)] * k,
                       constraints={"type": "eq", "fun": lambda w: d @ w - 1, "jac": lambda w: d},
                       options={"maxiter": 5000, "ftol": 1e-18})
        if best is None or res.fun < best.fun:
            best = res
    p = d * np.maximum(best.x, 0)
    return p / p.sum(), best.fun


# ---- writing ------------------------------------------------------------------------------------------

def named(prefix, module, grads=False):
    out = {f"{prefix}.{n}": p.detach().clone() for n, p in module.named_parameters()}
    out |= {f"{prefix}.{n}": b.detach().clone().to(torch.float64) for n, b in module.named_buffers() if "num_batches" not in n}
    if grads:
        out |= {f"grad.{prefix}.{n}": p.grad.detach().clone() for n, p in module.named_parameters() if p.grad is not None}
    return out


class Writer:
    def __init__(self, folder):
        self.folder, self.index = Path(folder), {}
        self.folder.mkdir(parents=True, exist_ok=True)

    def case(self, name, tensors, **scalars):
        save_file({k: torch.as_tensor(v).contiguous() for k, v in tensors.items()}, self.folder / f"{name}.safetensors")
        self.index[name] = {"scalars": {k: float(v) if not isinstance(v, (int, str)) else v for k, v in scalars.items()},
                            "tensors": {k: list(torch.as_tensor(v).shape) for k, v in tensors.items()}}

    def close(self):
        (self.folder / "index.json").write_text(json.dumps(self.index, indent=1, sort_keys=True) + "\n")


def main():
    out, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20221
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    write = Writer(out)
    d, k, nb, gamma, lambda_ot = 16, 4, 24, 10.0, 0.01

    def batch(y=None):
        y = torch.as_tensor(rng.integers(0, k, nb)) if y is None else y
        z_s = torch.as_tensor(rng.normal(size=(nb, d))) + y[:, None] * 0.7
        z_t = torch.as_tensor(rng.normal(size=(nb, d))) * 1.3 + 0.5
        return z_s, y, z_t, torch.as_tensor(rng.uniform(size=(nb, 1)))

    p_n = torch.as_tensor(rng.dirichlet(np.ones(k) * 2))
    p_s = torch.as_tensor(rng.dirichlet(np.ones(k) * 4))
    phi, critic, f_n, f_s = Phi(d, 3), Critic(d, 20, 12), Classifier(d, 14, k), Classifier(d, 14, k)

    # 1, 2: the critic's objective, with all classes in the batch and with class 0 absent
    for name, y in (("critic", torch.arange(nb) % k), ("critic_missing_class", torch.arange(nb) % (k - 1) + 1)):
        z_s, y, z_t, alpha = batch(y)
        w = source_weights(y, p_n)
        critic.zero_grad()
        loss, wd, gp = critic_loss(critic, z_s, z_t, w, alpha, gamma)
        loss.backward()
        write.case(name, {"z_n": z_s, "z_t": z_t, "y": y, "alpha": alpha, "p_n": p_n, "omega": w,
                          **named("critic", critic, grads=True)}, loss=loss, wd=wd, gp=gp, gamma=gamma, k=k)

    # 3: phi's objective; batch-norm in training mode, running statistics before and after
    z_s, y, z_t, alpha = batch()
    before = named("phi", phi)
    loss, wd, ot = phi_loss(critic, phi, z_s, y, z_t, source_weights(y, p_n), lambda_ot, k)
    phi.zero_grad()
    loss.backward()
    after = {f"after.{n}": t for n, t in named("phi", phi).items() if "running" in n}
    phi_grads = {n: t for n, t in named("phi", phi, grads=True).items() if n.startswith("grad.")}
    phi.eval()
    z_eval = phi(z_s)[0].detach()
    phi.train()
    write.case("phi", {"z_s": z_s, "z_t": z_t, "y": y, "p_n": p_n, **before, **after, **phi_grads, **named("critic", critic),
                       "z_n_eval": z_eval}, loss=loss, wd=wd, ot=ot, lambda_ot=lambda_ot, k=k)

    # 4: f_N's objective, alone and with information maximisation
    for name, ent, div in (("classifier", 0.0, 0.0), ("classifier_im", 0.3, 0.2)):
        z_s, y, z_t, _ = batch()
        before = named("f_n", f_n)
        f_n.zero_grad()
        ce = weighted_cross_entropy(f_n(z_s), y, p_n / p_s)
        loss = ce
        scalars = {}
        if ent:
            logits_t = f_n(z_t)
            h, m = conditional_entropy(logits_t), marginal_entropy(logits_t)
            loss = ce + ent * h - div * m
            scalars = {"entropy": h, "marginal_entropy": m, "ent_weight": ent, "div_weight": div}
        loss.backward()
        grads = {n: t for n, t in named("f_n", f_n, grads=True).items() if n.startswith("grad.")}
        write.case(name, {"z_n": z_s, "z_t": z_t, "y": y, "ratios": p_n / p_s, **before, **grads}, loss=loss, ce=ce, **scalars)

    # 5: the encoder's objective (SSg), for an MLP and for the digits convolution, with f_S frozen
    for name, enc, shape in (("encoder_mlp", MlpEncoder(10, 18, d), (10,)), ("encoder_conv", ConvEncoder(4, 5, d), (1, 32, 32))):
        x_s, x_t = (torch.as_tensor(rng.normal(size=(nb, *shape))) for _ in range(2))
        y = torch.as_tensor(rng.integers(0, k, nb))
        f_s.eval()
        before = named("g", enc)
        f_before = named("f_n", f_n)
        for m in (enc, f_n, f_s, phi):
            m.zero_grad()
        z = enc(torch.cat([x_s, x_t]))
        z_s, z_t = z[:nb], z[nb:]
        phi.eval()
        with torch.no_grad():
            z_n = phi(z_s)[0]
        ce_n = weighted_cross_entropy(f_n(z_n), y, p_n / p_s)
        logits_t = f_n(z_t)
        h, m = conditional_entropy(logits_t), marginal_entropy(logits_t)
        ce_s = F.cross_entropy(f_s(z_s), y)
        loss = 0.1 * ce_n + 0.3 * h - 0.2 * m + ce_s
        loss.backward()
        grads = {n: t for n, t in (named("g", enc, grads=True) | named("f_n", f_n, grads=True)).items() if n.startswith("grad.")}
        write.case(name, {"x_s": x_s, "x_t": x_t, "y": y, "ratios": p_n / p_s, "z": z.detach(), **before, **f_before, **grads,
                          **named("f_s", f_s), **named("phi", phi)},
                   loss=loss, ce_n=ce_n, entropy=h, marginal_entropy=m, ce_s=ce_s, clf_weight=0.1, ent_weight=0.3, div_weight=0.2)
        phi.train()

    # 6: a trajectory: 12 alignment iterations with Adam(0.5, 0.999), 5 critic steps each, batches given
    iters, n_v, lr = 12, 5, 1e-3
    phi, critic, f_n = Phi(d, 3), Critic(d, 20, 12), Classifier(d, 14, k)
    start = named("phi", phi) | named("critic", critic) | named("f_n", f_n)
    adam = lambda m: torch.optim.Adam(m.parameters(), lr=lr, betas=(0.5, 0.999), eps=1e-8)
    opt_phi, opt_v, opt_f = adam(phi), adam(critic), adam(f_n)
    data = {n: [] for n in ("z_s", "y", "z_t", "alpha")}
    trace = {n: [] for n in ("critic_loss", "wd", "gp", "phi_loss", "ot", "ce")}
    for _ in range(iters):
        for _ in range(n_v):
            b = batch()
            for n, t in zip(data, b):
                data[n].append(t)
            z_s, y, z_t, alpha = b
            with torch.no_grad():
                z_n = phi(z_s)[0]
            loss, wd, gp = critic_loss(critic, z_n, z_t, source_weights(y, p_n), alpha, gamma)
            opt_v.zero_grad()
            loss.backward()
            opt_v.step()
            trace["critic_loss"].append(loss.item()), trace["wd"].append(wd.item()), trace["gp"].append(gp.item())
        # phi and f_N use the last critic batch
        loss, _, ot = phi_loss(critic, phi, z_s, y, z_t, source_weights(y, p_n), lambda_ot, k)
        opt_phi.zero_grad()
        loss.backward()
        opt_phi.step()
        trace["phi_loss"].append(loss.item()), trace["ot"].append(ot.item())
        with torch.no_grad():
            z_n = phi(z_s)[0]
        ce = weighted_cross_entropy(f_n(z_n), y, p_n / p_s)
        opt_f.zero_grad()
        ce.backward()
        opt_f.step()
        trace["ce"].append(ce.item())
    end = {f"end.{n}": t for n, t in (named("phi", phi) | named("critic", critic) | named("f_n", f_n)).items()}
    write.case("trajectory", {**{n: torch.stack(t) for n, t in data.items()}, "p_n": p_n, "p_s": p_s, **start, **end,
                              **{f"trace.{n}": torch.tensor(t) for n, t in trace.items()}},
               iterations=iters, critic_steps=n_v, lr=lr, gamma=gamma, lambda_ot=lambda_ot, k=k)

    # 7: label proportions: soft joint confusion matrix C, predicted marginal q, exact solution on the simplex
    cases, qs, solutions, optimum = [], [], [], []
    for i in range(40):
        kk = 6
        p_source = rng.dirichlet(np.ones(kk) * 3)
        sharp = rng.uniform(0.5, 12)
        rows = rng.dirichlet(np.ones(kk), size=kk) + sharp * np.eye(kk)
        cond = (rows / rows.sum(1, keepdims=True)).T
        true = rng.dirichlet(np.ones(kk) * (0.3 if i % 3 == 0 else 2.0))
        q = cond @ true + rng.normal(size=kk) * (0.03 if i % 2 else 0.0)
        q = np.maximum(q, 1e-6) / np.maximum(q, 1e-6).sum()
        c = cond * p_source
        p, value = estimate_proportions(c, q)
        cases.append(c), qs.append(q), solutions.append(p), optimum.append(value)
    write.case("proportions", {"c": np.stack(cases), "q": np.stack(qs), "p": np.stack(solutions), "objective": np.array(optimum)})
    write.close()


if __name__ == "__main__":
    main()
