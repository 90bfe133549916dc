"""Worked cases for the estimators, computed independently of the Rust code: python3 make_worked.py

`em` is the maximum of the likelihood, found by SLSQP and not by expectation maximisation; `regularised` is the
ridge from its normal equations and a projection found by SLSQP; needs numpy and scipy.
"""

import json
from pathlib import Path

import numpy as np
from scipy.optimize import minimize, minimize_scalar

EPSILON = 1e-5  # inside the logarithms of the diversity terms


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def maximum_likelihood(target, prior):
    ratios = target / prior
    k = len(prior)
    best = minimize(lambda p: -np.log(ratios @ p).mean(), np.full(k, 1 / k), jac=lambda p: -(ratios / (ratios @ p)[:, None]).mean(0),
                    method="SLSQP", bounds=[(0, 1)] * k, constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones(k)},
                    options={"maxiter": 2000, "ftol": 1e-16})
    return np.maximum(best.x, 0) / np.maximum(best.x, 0).sum()


def regularised(c, q, rho):
    d, k = c.sum(0), len(q)
    theta = np.linalg.solve(c.T @ c + rho * np.eye(k), c.T @ (q - c.sum(1)))
    w = 1 + theta
    near = minimize(lambda v: ((v - w) ** 2).sum() / 2, np.ones(k), jac=lambda v: v - w, method="SLSQP", bounds=[(0, None)] * k,
                    constraints={"type": "eq", "fun": lambda v: d @ v - 1, "jac": lambda v: d}, options={"maxiter": 2000, "ftol": 1e-18})
    p = d * np.maximum(near.x, 0)
    return p / p.sum()


def corrected(rows, prior, p):
    out = rows * p / prior
    return out / out.sum(1, keepdims=True)


def temperature(rows, labels, prior):
    shift = np.log(np.bincount(labels, minlength=len(prior)) / len(labels)) - np.log(prior)

    def loss(log_t):
        logits = np.log(rows) / np.exp(log_t) + shift
        top = logits.max(1)
        return (top + np.log(np.exp(logits - top[:, None]).sum(1)) - logits[np.arange(len(labels)), labels]).mean()

    return float(np.exp(minimize_scalar(loss, bounds=(-2, 2), method="bounded", options={"xatol": 1e-10}).x))


def divergence(mean, p):
    return float((mean * (np.log(mean + EPSILON) - np.log(p + EPSILON))).sum())


def case(rng, k, rows, sharpness):
    prior = rng.dirichlet(np.full(k, 5.0))
    p = rng.dirichlet(np.full(k, 0.8))
    means = rng.normal(size=(k, 3)) * 1.2

    def draw(n, shares):
        y = rng.choice(k, n, p=shares)
        y[:k] = np.arange(k)
        x = means[y] + rng.normal(size=(n, 3))
        logits = x @ means.T - (means ** 2).sum(1) / 2 + np.log(prior)
        return softmax(sharpness * logits), y

    held_out, labels = draw(rows, np.full(k, 1 / k))
    target, _ = draw(rows, p)
    c = np.stack([held_out[labels == j].sum(0) / rows for j in range(k)], 1)
    q = target.mean(0)
    spread = np.concatenate([held_out[labels == j] - held_out[labels == j].mean(0) for j in range(k)])
    rho = (spread ** 2).mean() * (1 / rows + 1 / rows)
    return {
        "prior": prior, "held_out": held_out, "labels": labels, "target": target, "proportions": p,
        "em": maximum_likelihood(target, prior), "rho": rho, "regularised": regularised(c, q, rho),
        "prior_corrected": corrected(target, prior, p), "temperature": temperature(held_out, labels, prior),
        "mean_prediction": q, "divergence": divergence(q, p),
    }


def main():
    rng = np.random.default_rng(20220425)
    cases = [case(rng, k, rows, sharpness) for k, rows, sharpness in [(2, 60, 1.0), (2, 40, 2.0), (3, 60, 0.7), (5, 80, 1.0), (5, 50, 1.5)]]
    text = json.dumps(cases, default=lambda a: a.tolist())
    Path(__file__).with_name("cases.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
