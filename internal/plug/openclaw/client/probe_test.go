package client_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/client/clienttest"
)

// Only a response of a gateway is accepted.
func TestProbe(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	if err := client.Probe(t.Context(), g.URL, "", nil); err != nil {
		t.Error(err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if err := client.Probe(t.Context(), other.URL, "", nil); err == nil ||
		err.Error() != "status 404 Not Found instead of a WebSocket" {
		t.Errorf("another server is %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	err = client.Probe(t.Context(), "ws://"+l.Addr().String(), "", nil)
	if err == nil || strings.Contains(err.Error(), "http://") {
		t.Errorf("nobody greets: %v", err)
	}
}
