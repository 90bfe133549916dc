"""Trains a classifier with scikit-learn or LightGBM, exports it as ONNX, and writes what `ostard import` takes.

    python onnx_models.py --model mlp --out digits
    ostard import --onnx digits/model.onnx --data digits/labelled.jsonl --out digits/bundle
    python check.py digits

`expected.jsonl` has onnxruntime's predictions for `events.jsonl`, `stream.jsonl` has labelled rows whose classes and features have
shifted.
"""

import argparse
import json
import pathlib

import numpy
import onnxruntime


def logistic():
    """Logistic regression behind a scaler, with skl2onnx's default output: a dictionary for each row."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return scikit_learn(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), load_breast_cancer)


def mlp():
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = MLPClassifier((64, 16), max_iter=60, random_state=0)
    return scikit_learn(make_pipeline(StandardScaler(), network), load_digits)


def boosting():
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import GradientBoostingClassifier

    return scikit_learn(GradientBoostingClassifier(n_estimators=30, random_state=0), load_breast_cancer)


def boosting_digits():
    from sklearn.datasets import load_digits
    from sklearn.ensemble import GradientBoostingClassifier

    return scikit_learn(GradientBoostingClassifier(n_estimators=5, random_state=0), load_digits)


def forest():
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier

    return scikit_learn(RandomForestClassifier(20, random_state=0), load_digits)


def scikit_learn(model, load):
    from skl2onnx import to_onnx

    train, test = split(*load(return_X_y=True))
    model.fit(*train)
    return to_onnx(model, train[0][:1]), test


def lightgbm(load=None):
    import lightgbm
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType
    from sklearn.datasets import load_breast_cancer

    train, test = split(*(load or load_breast_cancer)(return_X_y=True))
    model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, random_state=0).fit(*train)
    return convert_lightgbm(model, initial_types=[("X", FloatTensorType([None, train[0].shape[1]]))]), test


def lightgbm_digits():
    from sklearn.datasets import load_digits

    return lightgbm(load_digits)


def columns():
    """Numbers and texts, one input each: scaled, one-hot encoded, and classified by a logistic regression."""
    import pandas
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    random = numpy.random.default_rng(0)
    rows = 2_000
    table = pandas.DataFrame(
        {
            "age": random.normal(40, 10, rows).astype("f4"),
            "amount": random.gamma(2, 50, rows).astype("f4"),
            "country": random.choice(["DE", "FR", "US"], rows),
            "channel": random.choice(["app", "web"], rows),
        }
    )
    score = (table.age - 40) / 10 + (table.country == "DE") - (table.channel == "app") + random.normal(0, 0.5, rows)
    labels = numpy.where(score > 0, "yes", "no")
    model = make_pipeline(
        make_column_transformer(
            (StandardScaler(), ["age", "amount"]),
            (OneHotEncoder(handle_unknown="ignore"), ["country", "channel"]),
        ),
        LogisticRegression(),
    )
    model.fit(table[: rows // 2], labels[: rows // 2])
    kinds = {"age": FloatTensorType, "amount": FloatTensorType, "country": StringTensorType, "channel": StringTensorType}
    exported = to_onnx(model, initial_types=[(name, kind([None, 1])) for name, kind in kinds.items()])
    test = table[rows // 2 :].reset_index(drop=True)
    # A category that training has not seen.
    test.loc[test.index[:50], "country"] = "ES"
    return exported, (test, labels[rows // 2 :])


def split(features, labels):
    from sklearn.model_selection import train_test_split

    features = features.astype(numpy.float32)
    train, test, train_labels, test_labels = train_test_split(
        features, labels, test_size=0.5, stratify=labels, random_state=0
    )
    return (train, train_labels), (test, test_labels)


def write(folder, exported, test):
    """Writes the model, labelled rows, events with onnxruntime's predictions for them, and a shifted stream."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = exported if isinstance(exported, bytes) else exported.SerializeToString()
    (folder / "model.onnx").write_bytes(model)
    rows, labels = test
    probabilities = predict(model, rows)
    inputs = events(rows)
    numbered = range(len(labels))
    # Labelled rows have their columns side by side; events have them in an object.
    write_lines(folder / "labelled.jsonl", [labelled(inputs[n]) | {"label": plain(labels[n])} for n in numbered])
    write_lines(folder / "events.jsonl", [{"id": n} | inputs[n] for n in numbered])
    write_lines(folder / "expected.jsonl", [{"id": n, "probabilities": probabilities[n].tolist()} for n in numbered])
    shifted = shift(rows, labels)
    write_lines(folder / "stream.jsonl", [labelled(row) | {"label": plain(label)} for row, label in shifted])
    right = (probabilities.argmax(axis=1) == numpy.unique(labels, return_inverse=True)[1]).mean()
    print(f"accuracy {right:.4f} on {len(labels)} rows that it was not trained on")


def predict(model, rows):
    """onnxruntime's probabilities."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    if hasattr(rows, "columns"):
        feeds = {name: rows[[name]].to_numpy() for name in rows.columns}
        feeds = {name: value.astype("f4") if value.dtype.kind == "f" else value.astype(object) for name, value in feeds.items()}
    else:
        feeds, start = {}, 0
        for each in inputs:
            sizes = [size for size in each.shape[1:]]
            width = int(numpy.prod(sizes)) if all(isinstance(size, int) for size in sizes) else rows.shape[1]
            kind = numpy.int64 if "int64" in each.type else numpy.float32
            piece = rows[:, start : start + width].astype(kind)
            feeds[each.name] = piece.reshape([len(rows), *(size if isinstance(size, int) else -1 for size in sizes)])
            start += width
    output = session.run(None, feeds)[-1]
    if isinstance(output, list):
        return numpy.array([list(row.values()) for row in output])
    if not numpy.allclose(output.sum(axis=1), 1, atol=1e-3) or (output < 0).any():
        powers = numpy.exp(output - output.max(axis=1, keepdims=True))
        output = powers / powers.sum(axis=1, keepdims=True)
    return output


def events(rows):
    if hasattr(rows, "columns"):
        return [{"fields": fields} for fields in rows.to_dict("records")]
    return [{"dense": row} for row in rows.tolist()]


def labelled(event):
    return event.get("fields", event)


def shift(rows, labels):
    """Four thousand rows: the first class becomes rare, and after a quarter of them every second number moves."""
    random = numpy.random.default_rng(1)
    classes, numbers = numpy.unique(labels, return_inverse=True)
    weights = numpy.where(numbers == 0, 0.2, 1.0)
    drawn = random.choice(len(labels), 4_000, p=weights / weights.sum())
    later = numpy.arange(4_000) >= 1_000
    if hasattr(rows, "columns"):
        moved = rows.iloc[drawn].reset_index(drop=True)
        moved.loc[later, "age"] += 10
        return zip(events(moved), labels[drawn], strict=True)
    moved = rows[drawn]
    if not numpy.array_equal(rows, rows.round()) or rows.max() <= 16:
        whole = (rows == rows.round()).all(axis=0) & (rows.max() > 1)
        step = numpy.where(whole, 0, rows.std(axis=0)) if not whole.all() else rows.std(axis=0)
        step[1::2] = 0
        moved = moved + later[:, None] * step
    else:
        # Tokens: words of the second kind become common in both classes.
        changed = later[:, None] & (random.random(moved.shape) < 0.15)
        moved = numpy.where(changed, random.integers(40, 50, moved.shape), moved)
    return zip(events(moved.astype("f4")), labels[drawn], strict=True)


def plain(value):
    return value.item() if hasattr(value, "item") else value


def write_lines(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")


MODELS = [logistic, mlp, boosting, boosting_digits, forest, lightgbm, lightgbm_digits, columns]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = {model.__name__: model for model in MODELS}
    parser.add_argument("--model", choices=names, required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    write(arguments.out, *names[arguments.model]())


if __name__ == "__main__":
    main()
