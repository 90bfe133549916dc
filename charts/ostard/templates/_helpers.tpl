{{- define "ostard.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ostard.fullname" -}}
{{- $name := include "ostard.name" . -}}
{{- $default := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $default .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "ostard.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ostard.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Selects the pods of one role. */}}
{{- define "ostard.roleLabels" -}}
{{ include "ostard.selectorLabels" . }}
ostard.io/role: {{ .Role }}
{{- end }}

{{- define "ostard.isDistributed" -}}
{{- if eq .Values.mode "distributed" }}true{{ end }}
{{- end }}

{{- define "ostard.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "ostard.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: {{ default "learner" .Role }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "ostard.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "ostard.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "ostard.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ostard.serviceName" -}}
{{- /* KServe makes Services by the InferenceService's name. */ -}}
{{ include "ostard.fullname" . }}{{ if .Values.kserve.enabled }}-learner{{ end }}
{{- end }}

{{/* Name of the checkpoint claim, if the StatefulSet does not create it itself. */}}
{{- define "ostard.claim" -}}
{{- default (printf "state-%s" (include "ostard.fullname" .)) .Values.persistence.existingClaim }}
{{- end }}

{{- define "ostard.claimSpec" -}}
accessModes:
  {{- toYaml .Values.persistence.accessModes | nindent 2 }}
{{- with .Values.persistence.storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .Values.persistence.size }}
{{- end }}

{{/* Whole seconds of a duration like "500ms", "30s", "5m" or "1h", rounded up. */}}
{{- define "ostard.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- if eq $unit "h" -}}{{ mul $number 3600 }}
{{- else if eq $unit "m" -}}{{ mul $number 60 }}
{{- else if eq $unit "ms" -}}{{ div (add $number 999) 1000 }}
{{- else -}}{{ $number }}
{{- end }}
{{- end }}

{{/* Longer than the daemon's deadline, so that it is not killed while it writes its last checkpoint. */}}
{{- define "ostard.gracePeriod" -}}
{{- $text := dig "shutdown" "deadline" "30s" .Values.config -}}
{{- $deadline := include "ostard.seconds" $text | int -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{ add $deadline 15 }}
{{- else if le (int $given) $deadline -}}
{{- fail (printf "terminationGracePeriodSeconds is %d, expected more than config.shutdown.deadline, which is %s" (int $given) $text) }}
{{- else -}}
{{ int $given }}
{{- end }}
{{- end }}

{{/* Refuses values that fit the schema but make no sense together. */}}
{{- define "ostard.check" -}}
{{- if not .Values.model.volume }}
{{- fail "model.volume is empty, expected the volume with the model bundle, such as {persistentVolumeClaim: {claimName: models}}" }}
{{- end }}
{{- if not (dig "kafka" "brokers" "" .Values.config) }}
{{- fail "config.kafka.brokers is empty, expected host:port, separated by commas" }}
{{- end }}
{{- if not (dig "kafka" "topic" "" .Values.config) }}
{{- fail "config.kafka.topic is empty, expected the topic of the events" }}
{{- end }}
{{- if include "ostard.isDistributed" . }}
{{- if .Values.kserve.enabled }}
{{- fail "mode is distributed and kserve.enabled is true, expected one of the two" }}
{{- end }}
{{- range $section, $key := dict "samples" "samples.topic" "checkpoints" "checkpoints.topic" "parked" "parked.topic" }}
{{- if not (dig $section "topic" "" $.Values.config) }}
{{- fail (printf "mode is distributed and config.%s is empty, expected the name of a topic: see docs/SCALE_OUT.md" $key) }}
{{- end }}
{{- end }}
{{- with .Values.distributed.scorers }}
{{- if gt (int .minReplicas) (int .maxReplicas) }}
{{- fail (printf "distributed.scorers.minReplicas is %d, expected at most maxReplicas, which is %d" (int .minReplicas) (int .maxReplicas)) }}
{{- end }}
{{- if and .partitions (gt (int .maxReplicas) (int .partitions)) }}
{{- fail (printf "distributed.scorers.maxReplicas is %d, expected at most the %d partitions of the events: further scorers would read nothing" (int .maxReplicas) (int .partitions)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.tls.clientCaKey (not .Values.tls.existingSecret) }}
{{- fail "tls.clientCaKey is set without tls.existingSecret, expected the Secret that has the key" }}
{{- end }}
{{- if and .Values.control.enabled (not .Values.auth.existingSecret) (not .Values.tls.clientCaKey) }}
{{- fail "control.enabled is true, but callers are not authenticated: set auth.existingSecret or tls.clientCaKey" }}
{{- end }}
{{- end }}
