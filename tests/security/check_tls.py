"""The TLS of the listeners, looked at by sslyze: no old version, no weak suite, no known hole.

`make check-tls` runs it. OSTARD names the program, which needs no broker.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

OSTARD = os.environ["OSTARD"]
OLD = ["ssl_2_0_cipher_suites", "ssl_3_0_cipher_suites", "tls_1_0_cipher_suites", "tls_1_1_cipher_suites"]
# Forward secrecy, and encryption that authenticates.
STRONG = re.compile(r"TLS_(ECDHE_(RSA|ECDSA)_WITH_)?(AES_(128|256)_GCM_SHA(256|384)|CHACHA20_POLY1305_SHA256)$")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([OSTARD, "demo", "--export", folder / "demo", "--seconds", "1"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
            + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
            + ["-keyout", folder / "key.pem", "-out", folder / "certificate.pem"],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        settings = {
            "kafka.brokers": "127.0.0.1:1",
            "kafka.topic": "none",
            "bundle.path": folder / "demo" / "bundle",
            "checkpoints.folder": folder / "state",
            "grpc.listen": "127.0.0.1:0",
            "http.listen": "127.0.0.1:0",
            "tls.certificate": folder / "certificate.pem",
            "tls.key": folder / "key.pem",
            "log.format": "json",
        }
        flags = [flag for key, value in settings.items() for flag in ("--set", f"{key}={value}")]
        daemon = subprocess.Popen([OSTARD, "run", *flags], stderr=subprocess.PIPE, text=True)
        try:
            addresses = listening(daemon)
            problems = [f"{key}: {problem}" for key, address in addresses.items() for problem in weak(address, folder)]
        finally:
            daemon.terminate()
            daemon.wait()
    print("\n".join(problems) or f"sslyze finds nothing weak on {', '.join(addresses)}")
    sys.exit(bool(problems))


def listening(daemon):
    """The addresses of the log line `listening`."""
    for line in daemon.stderr:
        entry = json.loads(line)
        if entry.get("message") == "listening":
            # Somebody must read on, or the daemon waits.
            threading.Thread(target=daemon.stderr.read, daemon=True).start()
            return {key: entry[key] for key in ("grpc_address", "http_address")}
    raise RuntimeError("the daemon did not start")


def weak(address, folder):
    report = folder / "report.json"
    command = [pathlib.Path(sys.executable).with_name("sslyze"), f"--json_out={report}", "--quiet", address]
    subprocess.run(command, check=False)
    [server] = json.loads(report.read_text())["server_scan_results"]
    if server["connectivity_status"] != "COMPLETED":
        yield f"sslyze could not connect: {server['connectivity_error_trace']}"
        return
    scan = server["scan_result"]

    def accepted(key):
        return [suite["cipher_suite"]["name"] for suite in scan[key]["result"]["accepted_cipher_suites"]]

    for key in OLD:
        if accepted(key):
            yield f"{key}: {accepted(key)}"
    new = accepted("tls_1_2_cipher_suites") + accepted("tls_1_3_cipher_suites")
    if len(new) < 4:
        yield f"too few suites: {new}"
    yield from (f"weak suite {name}" for name in new if not STRONG.match(name))
    if scan["heartbleed"]["result"]["is_vulnerable_to_heartbleed"]:
        yield "heartbleed"
    if scan["openssl_ccs_injection"]["result"]["is_vulnerable_to_ccs_injection"]:
        yield "CCS injection"
    if scan["tls_compression"]["result"]["supports_compression"]:
        yield "compression"
    renegotiation = scan["session_renegotiation"]["result"]
    if renegotiation["is_vulnerable_to_client_renegotiation_dos"]:
        yield "renegotiation by clients"
    if "NOT_VULNERABLE" not in scan["robot"]["result"]["robot_result"]:
        yield "ROBOT"


main()
