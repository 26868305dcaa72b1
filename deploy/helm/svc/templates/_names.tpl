{{- define "svc.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "svc.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "svc.selector" . }}
{{- end }}

{{- define "svc.selector" -}}
app.kubernetes.io/name: svc
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "svc.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "svc.sealing" -}}
{{ .Values.sealingSecret.name | default (printf "%s-sealing" (include "svc.name" .)) }}
{{- end }}

{{- define "svc.firstKey" -}}
{{ .Values.firstKeySecret.name | default (printf "%s-first-key" (include "svc.name" .)) }}
{{- end }}

{{- /* The claim of volumes; empty without any. */ -}}
{{- define "svc.volumes" -}}
{{- if .Values.volumes.claim }}{{ .Values.volumes.claim }}{{ else if .Values.volumes.size }}{{ include "svc.name" . }}-volumes{{ end -}}
{{- end }}

{{- /* The Pods of hosts: what src/kubernetes/pod-spec.ts puts on them. */ -}}
{{- define "svc.hostSelector" -}}
svc/release: {{ include "svc.name" . }}
{{- end }}
