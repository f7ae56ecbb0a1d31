// Package conformance runs the conformance suite of the Gateway API as it is; its flags say against what.
package conformance

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func TestGatewayAPI(t *testing.T) {
	conformance.RunConformance(t)
}
