"""The chart: linted, rendered for every values file, held to the Kubernetes schemas and to what it promises.

`make check-chart` runs it. HELM, KUBE_SCORE and OSTARD name the programs.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import kubernetes_validate
import yaml
from chart import CHART, KUBERNETES, MINIMAL, VALUES, configuration, helm, objects, of_kind, pod_specs, template

# Groups whose schemas are not Kubernetes' own: `make check-chart-server` holds these to their real definitions.
FOREIGN = ("monitoring.coreos.com/", "serving.kserve.io/", "external-secrets.io/")

# What kube-score calls critical and we do on purpose. A limit of CPU would throttle the learner although the node is idle;
# a tag names one release, and `image.digest` one image; one pod needs no name of its own, so the Service is not headless.
ACCEPTED = [
    "--ignore-container-cpu-limit",
    "--ignore-test=container-image-pull-policy",
    "--ignore-test=statefulset-has-servicename",
]


class EveryValuesFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rendered = {values: objects(values) for values in VALUES}

    def each(self, check):
        """Checks every values file, whatever the others came to."""
        self.assertGreaterEqual(len(VALUES), 5)
        for values, rendered in self.rendered.items():
            with self.subTest(values.name):
                check(values, rendered)

    def test_passes_the_strict_linter(self):
        def check(values, _):
            linted = helm("lint", "--strict", CHART, "--values", values, "--kube-version", KUBERNETES)
            self.assertEqual(linted.returncode, 0, linted.stdout + linted.stderr)

        self.each(check)

    def test_fits_the_schemas_of_kubernetes(self):
        def check(_, rendered):
            native = [each for each in rendered if not each["apiVersion"].startswith(FOREIGN)]
            self.assertGreaterEqual(len(native), 5)
            for each in native:
                kubernetes_validate.validate(each, KUBERNETES.rsplit(".", 1)[0], strict=True)

        self.each(check)

    def test_gives_a_configuration_that_the_daemon_accepts(self):
        def check(_, rendered):
            with tempfile.TemporaryDirectory() as folder:
                # The program of the tests has no CUDA, and refuses the device of the values with a GPU.
                text = configuration(rendered).replace("device: cuda:0", "device: cpu")
                checked = check_configuration(text, pathlib.Path(folder))
                self.assertEqual(checked.returncode, 0, checked.stderr)

        self.each(check)

    def test_makes_pods_of_the_restricted_kind_without_a_token(self):
        def check(values, rendered):
            specs = list(pod_specs(rendered))
            # The daemon's and the test's, which has no certificate to show; or scorers, learners and the topics' job.
            expected = {"tls-values.yaml": 1, "distributed-values.yaml": 4}
            self.assertEqual(len(specs), expected.get(values.name, 2))
            for spec in specs:
                self.assertIs(spec["automountServiceAccountToken"], False)
                self.assertTrue(spec["securityContext"]["runAsNonRoot"])
                self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                for container in spec["containers"] + spec.get("initContainers", []):
                    context = container["securityContext"]
                    self.assertIs(context["allowPrivilegeEscalation"], False)
                    self.assertIs(context["readOnlyRootFilesystem"], True)
                    self.assertEqual(context["capabilities"], {"drop": ["ALL"]})

        self.each(check)

    def test_has_no_critical_finding_of_kube_score(self):
        def check(values, _):
            # It sees no pods in an InferenceService.
            if values.name == "kserve-values.yaml":
                return
            rendered = template(values, "--set", "networkPolicy.enabled=true")
            command = [os.environ["KUBE_SCORE"], "score", "--output-format", "ci", *ACCEPTED, "-"]
            scored = subprocess.run(command, check=False, capture_output=True, text=True, input=rendered.stdout)
            lines = scored.stdout.splitlines()
            self.assertGreater(len([line for line in lines if line.startswith("[OK]")]), 10, scored.stderr)
            self.assertEqual([line for line in lines if line.startswith("[CRITICAL]")], [])

        self.each(check)

    def test_mounts_every_volume_that_it_names(self):
        def check(_, rendered):
            sets = [each for each in rendered if each["kind"] == "StatefulSet"]
            claims = [claim for each in sets for claim in each["spec"].get("volumeClaimTemplates", [])]
            claimed = {claim["metadata"]["name"] for claim in claims}
            for spec in pod_specs(rendered):
                volumes = {volume["name"] for volume in spec.get("volumes", [])}
                mounts = [mount for container in spec["containers"] for mount in container.get("volumeMounts", [])]
                mounted = {mount["name"] for mount in mounts}
                self.assertLessEqual(volumes, mounted)
                self.assertLessEqual(mounted, volumes | claimed)

        self.each(check)

    def test_names_no_object_twice(self):
        def check(_, rendered):
            names = [(each["kind"], each["metadata"]["name"]) for each in rendered]
            self.assertEqual(len(names), len(set(names)))

        self.each(check)


class Promises(unittest.TestCase):
    def test_a_pod_has_longer_to_end_than_the_daemon_takes(self):
        for deadline, grace in [("30s", 45), ("2m", 135), ("500ms", 16), ("1h", 3615)]:
            spec = pod(f"config.shutdown.deadline={deadline}")
            self.assertEqual(spec["terminationGracePeriodSeconds"], grace)
        self.assertEqual(pod("terminationGracePeriodSeconds=90")["terminationGracePeriodSeconds"], 90)

    def test_a_changed_configuration_makes_a_new_pod(self):
        def checksum(*flags):
            annotations = of_kind("StatefulSet", MINIMAL, *flags)["spec"]["template"]["metadata"]["annotations"]
            return annotations["checksum/config"]

        self.assertEqual(checksum(), checksum())
        self.assertNotEqual(checksum(), checksum("--set", "config.learner.block=1000"))

    def test_probes_ask_the_endpoints_that_are_meant_for_them(self):
        container = pod()["containers"][0]
        for probe, path in [("startupProbe", "/startupz"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]:
            request = container[probe]["httpGet"]
            self.assertEqual(request, {"path": path, "port": 8080, "scheme": "HTTP"})
        encrypted = pod("tls.existingSecret=certificate")["containers"][0]
        self.assertEqual(encrypted["livenessProbe"]["httpGet"]["scheme"], "HTTPS")

    def test_secrets_of_kafka_are_files_and_never_values(self):
        rendered = objects(CHART / "ci" / "tls-values.yaml")
        read = yaml.safe_load(configuration(rendered))["kafka"]["options_from_files"]
        self.assertEqual(read["sasl.password"], "/etc/ostard/kafka/kafka-credentials/password")
        self.assertEqual(read["ssl.ca.pem"], "/etc/ostard/kafka/kafka-ca/ca.crt")
        container = next(pod_specs(rendered))["containers"][0]
        mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
        self.assertIn("/etc/ostard/kafka/kafka-credentials", mounted)

    def test_the_network_policy_lets_the_daemon_reach_its_brokers(self):
        policy = of_kind("NetworkPolicy", CHART / "ci" / "tls-values.yaml")
        ports = [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]
        self.assertEqual(ports, [53, 53, 9095, 9094])

    def test_distributed_it_makes_scorers_and_learners_without_a_volume_for_state(self):
        rendered = objects(CHART / "ci" / "distributed-values.yaml")
        kinds = [each["kind"] for each in rendered]
        self.assertNotIn("StatefulSet", kinds)
        self.assertNotIn("PersistentVolumeClaim", kinds)
        deployments = {each["metadata"]["name"]: each["spec"] for each in rendered if each["kind"] == "Deployment"}
        self.assertEqual(sorted(deployments), ["shop-ostard-learner", "shop-ostard-scorers"])
        for name, spec in deployments.items():
            pod_spec = spec["template"]["spec"]
            role = "learner" if name.endswith("learner") else "scorer"
            self.assertIn(f"--role={role}", pod_spec["containers"][0]["args"])
            self.assertNotIn("state", [volume["name"] for volume in pod_spec["volumes"]])
            selected = spec["selector"]["matchLabels"]
            self.assertEqual(selected["ostard.io/role"], role)
            self.assertLessEqual(selected.items(), spec["template"]["metadata"]["labels"].items())
        self.assertNotIn("replicas", deployments["shop-ostard-scorers"], "the autoscaler sets it")
        scaler = next(each["spec"] for each in rendered if each["kind"] == "HorizontalPodAutoscaler")
        self.assertEqual(scaler["scaleTargetRef"]["name"], "shop-ostard-scorers")
        self.assertEqual((scaler["minReplicas"], scaler["maxReplicas"]), (3, 12))
        budgets = [each for each in rendered if each["kind"] == "PodDisruptionBudget"]
        self.assertEqual(len(budgets), 2)
        service = next(each for each in rendered if each["metadata"]["name"] == "shop-ostard" and each["kind"] == "Service")
        self.assertEqual(service["spec"]["selector"]["ostard.io/role"], "scorer")
        job = next(each for each in rendered if each["kind"] == "Job")
        self.assertEqual(job["metadata"]["annotations"]["helm.sh/hook"], "pre-install,pre-upgrade")
        self.assertIn("--replicas=3", job["spec"]["template"]["spec"]["containers"][0]["args"])
        checkpoints = yaml.safe_load(configuration(rendered))["checkpoints"]
        self.assertEqual(checkpoints, {"store": "kafka", "topic": "mails-state"})

    def test_distributed_only_learners_get_a_gpu(self):
        rendered = objects(CHART / "ci" / "distributed-values.yaml", "--set", "gpu.enabled=true")
        deployments = [each for each in rendered if each["kind"] == "Deployment"]
        containers = {each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0] for each in deployments}
        scorer, learner = containers["shop-ostard-scorers"], containers["shop-ostard-learner"]
        self.assertIn("nvidia.com/gpu", learner["resources"]["limits"])
        self.assertNotIn("nvidia.com/gpu", scorer["resources"]["limits"])
        self.assertIn("--set=learner.device=cpu", scorer["args"])
        self.assertNotIn("--set=learner.device=cpu", learner["args"])

    def test_distributed_mistakes_are_refused_with_the_reason(self):
        values = CHART / "ci" / "distributed-values.yaml"
        mistakes = {
            "distributed.scorers.maxReplicas=13": "at most the 12 partitions",
            "distributed.scorers.minReplicas=20": "expected at most maxReplicas",
            "config.samples.topic=": "config.samples.topic is empty",
            "config.checkpoints.topic=": "config.checkpoints.topic is empty",
            "kserve.enabled=true": "expected one of the two",
            "mode=both": "/mode",
        }
        for flag, reason in mistakes.items():
            with self.subTest(flag):
                refused = template(values, "--set", flag)
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn(reason, refused.stderr)

    def test_every_dashboard_and_rule_is_installed(self):
        rendered = objects(CHART / "ci" / "tls-values.yaml")
        dashboards = [each for each in rendered if "grafana_dashboard" in each["metadata"].get("labels", {})]
        rules = [each for each in rendered if each["kind"] == "PrometheusRule"]
        self.assertEqual(len(dashboards), len(list((CHART / "files" / "dashboards").glob("*.json"))))
        self.assertEqual(len(rules), len(list((CHART / "files" / "rules").glob("*.yaml"))))
        for each in rules:
            self.assertTrue(each["spec"]["groups"])


class Mistakes(unittest.TestCase):
    def test_the_schema_refuses_typos_and_wrong_types_by_name(self):
        mistakes = {
            "persistance.enabled=false": "persistance",
            "service.grpcport=1": "grpcport",
            "service.grpcPort=many": "/service/grpcPort",
            "persistence.enabled=perhaps": "/persistence/enabled",
            "persistence.size=large": "/persistence/size",
            "image.digest=latest": "/image/digest",
            "config.kafka.topik=events": "topik",
            "config.learner.block=many": "/config/learner/block",
            "config.serving.mode=best": "/config/serving/mode",
        }
        for flag, named in mistakes.items():
            with self.subTest(flag):
                refused = template(MINIMAL, "--set", flag)
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn("don't meet the specifications of the schema", refused.stderr)
                self.assertIn(named, refused.stderr.replace("'", ""))

    def test_a_gpu_is_requested_and_learned_on_unless_another_device_is_set(self):
        flags = ("--set", "gpu.enabled=true")
        rendered = objects(MINIMAL, *flags)
        self.assertEqual(yaml.safe_load(configuration(rendered))["learner"]["device"], "cuda:0")
        limits = next(pod_specs(rendered))["containers"][0]["resources"]["limits"]
        self.assertEqual(limits["nvidia.com/gpu"], 1)
        second = objects(MINIMAL, *flags, "--set", "config.learner.device=cuda:1")
        self.assertEqual(yaml.safe_load(configuration(second))["learner"]["device"], "cuda:1")
        with tempfile.TemporaryDirectory() as folder:
            refused = check_configuration(configuration(rendered), pathlib.Path(folder))
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("learner.device", refused.stderr)
            self.assertIn("lacks the feature `cuda`", refused.stderr)
        self.assertNotIn("learner", yaml.safe_load(configuration(objects(MINIMAL))))

    def test_values_that_do_not_go_together_are_refused_with_the_reason(self):
        mistakes = {
            "model.volume=null": "model.volume is empty",
            "config.kafka.brokers=": "config.kafka.brokers is empty",
            "config.kafka.topic=": "config.kafka.topic is empty",
            "tls.clientCaKey=ca.crt": "without tls.existingSecret",
            "control.enabled=true": "set auth.existingSecret or tls.clientCaKey",
            "terminationGracePeriodSeconds=30": "expected more than config.shutdown.deadline, which is 30s",
        }
        for flag, reason in mistakes.items():
            with self.subTest(flag):
                refused = template(MINIMAL, "--set", flag)
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn(reason, refused.stderr)


def pod(*assignments):
    flags = [part for assignment in assignments for part in ("--set", assignment)]
    return next(pod_specs(objects(MINIMAL, *flags)))


def check_configuration(text, folder):
    """Lets the daemon check the file, with the volumes' files where this machine can have them."""
    text = re.sub(r"(?<=: )/(?=etc/|model|state)", f"{folder}/", text)
    for path in re.findall(rf"{folder}/etc/\S+", text):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_text("some text\n")
    (folder / "model").mkdir()
    (folder / "model" / "bundle.json").write_text("{}")
    written = folder / "ostard.yaml"
    written.write_text(text)
    command = [os.environ["OSTARD"], "config", "check", "--config", written]
    return subprocess.run(command, check=False, capture_output=True, text=True)


unittest.main(verbosity=2)
