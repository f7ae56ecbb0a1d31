{{- define "pilotlight.labels" -}}
app.kubernetes.io/name: pilotlight
{{- if ne .Release.Name "pilotlight" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- end }}

{{- define "pilotlight.name" -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" }}
{{- end }}

{{- define "pilotlight.subject" -}}
- kind: ServiceAccount
  name: {{ include "pilotlight.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* What belongs to namespaces: a Role in each of them, or a part of the ClusterRole. */}}
{{- define "pilotlight.rules" -}}
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways, httproutes, referencegrants]
  verbs: [list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways/status, httproutes/status]
  verbs: [patch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [list, watch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses/status]
  verbs: [patch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [services, secrets]
  verbs: [list, watch]
{{- if .Values.scaleToZero }}
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments/scale, statefulsets/scale]
  verbs: [patch]
{{- end }}
{{- end }}
