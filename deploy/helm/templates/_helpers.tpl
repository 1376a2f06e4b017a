{{- define "riparian.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "riparian.labels" -}}
app.kubernetes.io/name: riparian
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* What selects pods: of (list . "worker") */}}
{{- define "riparian.selector" -}}
app.kubernetes.io/name: riparian
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "riparian.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The stream file as an object; an error where it is none. */}}
{{- define "riparian.spec" -}}
{{- $spec := required "stream: give the stream file, --set-file stream=STREAM.yaml" .Values.stream | fromYaml -}}
{{- if not $spec.name }}{{ fail "stream: expected a stream file with a name; give --set-file stream=STREAM.yaml" }}{{ end -}}
{{- $spec | toJson -}}
{{- end -}}

{{/* Environment of a command: the connection. What is secret is a file. */}}
{{- define "riparian.environment" -}}
- name: RIPARIAN_BROKER
  value: {{ .Values.kafka.bootstrapServers | quote }}
{{- range $name, $value := .Values.kafka.settings }}
- name: RIPARIAN_KAFKA_{{ $name | replace "." "_" | upper }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $of := .Values.kafka.secrets }}
- name: RIPARIAN_KAFKA_{{ $name | replace "." "_" | upper }}
  value: {{ printf "%s/etc/riparian/kafka/%s" (hasSuffix ".location" $name | ternary "" "file:") $name | quote }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "riparian.mounts" -}}
- {name: stream, mountPath: /etc/riparian/stream, readOnly: true}
- {name: kernels, mountPath: /var/cache/riparian}
- {name: data, mountPath: /var/lib/riparian}
- {name: tmp, mountPath: /tmp}
{{- if .Values.kafka.secrets }}
- {name: kafka, mountPath: /etc/riparian/kafka, readOnly: true}
{{- end }}
{{- end -}}

{{- define "riparian.volumes" -}}
- name: stream
  configMap: {name: {{ include "riparian.name" . }}-stream}
- name: kernels
  emptyDir: {}
- name: data
  emptyDir: {}
- name: tmp
  emptyDir: {}
{{- if .Values.kafka.secrets }}
- name: kafka
  projected:
    defaultMode: 0440
    sources:
      {{- range $name, $of := .Values.kafka.secrets }}
      - secret:
          name: {{ $of.secret }}
          items: [{key: {{ $of.key | quote }}, path: {{ $name | quote }}}]
      {{- end }}
{{- end }}
{{- end -}}

{{- define "riparian.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "riparian.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The image holds compiled kernels, and its root is read-only: they are copied to where more can be added. */}}
{{- define "riparian.kernels" -}}
- name: kernels
  image: {{ include "riparian.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [cp, -r, /var/cache/riparian/., /kernels/]
  securityContext:
    {{- include "riparian.containerSecurity" . | nindent 4 }}
  resources:
    requests: {cpu: 50m, memory: 32Mi}
    limits: {memory: 128Mi}
  volumeMounts:
    - {name: kernels, mountPath: /kernels}
{{- end -}}

{{- define "riparian.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
