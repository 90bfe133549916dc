{{/* Metadata of the pod, the same in a StatefulSet and under KServe, except the indentation of its labels. */}}
{{- define "ostard.podAnnotations" -}}
# A changed configuration replaces the pod.
checksum/config: {{ include "ostard.config" . | sha256sum }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "ostard.podLabels" -}}
{{ include "ostard.labels" . }}
{{- with .Role }}
ostard.io/role: {{ . }}
{{- end }}
{{- with .Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "ostard.podSpec" -}}
{{- $scheme := ternary "HTTPS" "HTTP" (ne .Values.tls.existingSecret "") -}}
serviceAccountName: {{ include "ostard.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "ostard.gracePeriod" . }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if and .Values.gpu.enabled .Values.gpu.runtimeClassName }}
runtimeClassName: {{ .Values.gpu.runtimeClassName }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: {{ ternary "kserve-container" "ostard" .Values.kserve.enabled }}
    image: {{ include "ostard.image" . | quote }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
      - run
      - --config=/etc/ostard/config/ostard.yaml
      {{- with .Role }}
      - --role={{ . }}
      {{- end }}
      {{- if and .Values.gpu.enabled (eq (default "" .Role) "scorer") }}
      {{- /* Only learners have the GPU. */}}
      - --set=learner.device=cpu
      {{- end }}
      {{- with .Values.extraArgs }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with .Values.extraEnv }}
    env:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    ports:
      {{- /* KServe sends requests to the first port. */}}
      - name: {{ ternary "http1" "http" .Values.kserve.enabled }}
        containerPort: 8080
        protocol: TCP
      - name: grpc
        containerPort: 50051
        protocol: TCP
      {{- if .Values.control.enabled }}
      - name: control
        containerPort: 50052
        protocol: TCP
      {{- end }}
    startupProbe:
      httpGet:
        path: /startupz
        port: 8080
        scheme: {{ $scheme }}
      {{- toYaml .Values.startupProbe | nindent 6 }}
    livenessProbe:
      httpGet:
        path: /livez
        port: 8080
        scheme: {{ $scheme }}
      {{- toYaml .Values.livenessProbe | nindent 6 }}
    readinessProbe:
      httpGet:
        path: /readyz
        port: 8080
        scheme: {{ $scheme }}
      {{- toYaml .Values.readinessProbe | nindent 6 }}
    {{- $resources := deepCopy .Values.resources }}
    {{- with .Part }}
    {{- $resources = mergeOverwrite $resources (deepCopy .resources) }}
    {{- end }}
    {{- if and .Values.gpu.enabled (ne (default "" .Role) "scorer") }}
    {{- $device := dict .Values.gpu.resource .Values.gpu.count }}
    {{- $resources = mergeOverwrite $resources (dict "limits" $device "requests" $device) }}
    {{- end }}
    resources:
      {{- toYaml $resources | nindent 6 }}
    securityContext:
      {{- toYaml .Values.securityContext | nindent 6 }}
    volumeMounts:
      - name: config
        mountPath: /etc/ostard/config
        readOnly: true
      - name: model
        mountPath: /model
        readOnly: true
        {{- with .Values.model.subPath }}
        subPath: {{ . }}
        {{- end }}
      {{- if not .Role }}
      - name: state
        mountPath: /state
      {{- end }}
      {{- if .Values.tls.existingSecret }}
      - name: tls
        mountPath: /etc/ostard/tls
        readOnly: true
      {{- end }}
      {{- if .Values.auth.existingSecret }}
      - name: auth
        mountPath: /etc/ostard/auth
        readOnly: true
      {{- end }}
      {{- range $index, $secret := .Values.kafka.secrets }}
      - name: kafka-{{ $index }}
        mountPath: /etc/ostard/kafka/{{ $secret.name }}
        readOnly: true
      {{- end }}
      {{- with .Values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: config
    configMap:
      name: {{ include "ostard.fullname" . }}
  - name: model
    {{- toYaml .Values.model.volume | nindent 4 }}
  {{- if .Role }}
  {{- /* What is learned is kept in a topic. */}}
  {{- else if not .Values.persistence.enabled }}
  - name: state
    emptyDir: {}
  {{- else if or .Values.persistence.existingClaim .Values.kserve.enabled }}
  - name: state
    persistentVolumeClaim:
      claimName: {{ include "ostard.claim" . }}
  {{- end }}
  {{- with .Values.tls.existingSecret }}
  - name: tls
    secret:
      secretName: {{ . }}
      defaultMode: 0440
  {{- end }}
  {{- with .Values.auth.existingSecret }}
  - name: auth
    secret:
      secretName: {{ . }}
      defaultMode: 0440
  {{- end }}
  {{- range $index, $secret := .Values.kafka.secrets }}
  - name: kafka-{{ $index }}
    secret:
      secretName: {{ $secret.name }}
      defaultMode: 0440
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Role }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    {{- /* A standby on the node of the learner helps nobody. */}}
    whenUnsatisfiable: {{ ternary "DoNotSchedule" "ScheduleAnyway" (and (eq .Role "learner") .Values.distributed.learner.spread) }}
    labelSelector:
      matchLabels:
        {{- include "ostard.roleLabels" . | nindent 8 }}
{{- end }}
{{- end }}
