package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"patchbay/internal/netx"
)

// documents returns what reads documents by their addresses: over TLS, from a server of the test,
// whatever host they name.
func documents(t *testing.T, byAddress map[string]string) http.RoundTripper {
	t.Helper()
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document, ok := byAddress["https://"+r.Host+r.URL.RequestURI()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, document)
	}))
	t.Cleanup(web.Close)
	transport := web.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.ServerName = "example.com" // of the certificate of httptest
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, web.Listener.Addr().String())
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// documentOf returns a document that describes a program.
func documentOf(address, name string, redirects ...string) string {
	text, err := json.Marshal(map[string]any{"client_id": address, "client_name": name, "redirect_uris": redirects,
		"token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code", "refresh_token"},
		"response_types": []string{"code"}})
	if err != nil {
		panic(fmt.Sprint("strings can be encoded: ", err))
	}
	return string(text)
}

// The official SDK, as a program that a document describes, lists, refreshes, and is revoked.
func TestOAuthSDKDocument(t *testing.T) {
	const document = "https://app.example/client.json"
	s := newOAuthServer(t, Options{TokenLife: time.Second, Documents: documents(t, map[string]string{
		document: documentOf(document, "An App", sdkRedirect)})})
	s.document = &auth.ClientIDMetadataDocumentConfig{URL: document}
	session, err := s.sdk("/mcp", allowAll)
	must(t, err)
	defer session.Close()
	tools, err := session.ListTools(t.Context(), nil)
	must(t, err)
	if key := s.newestKey(); len(tools.Tools) == 0 || key.Client != document || key.Name != "An App" {
		t.Errorf("%d tools, with the key %+v", len(tools.Tools), key)
	}
	must(t, netx.Wait(t.Context(), 1100*time.Millisecond)) // until the token has expired
	if _, err := session.ListTools(t.Context(), nil); err != nil {
		t.Errorf("with a new token: %v", err)
	}
	s.declines = true // it asks again
	s.revokeNewest()
	if _, err := session.ListTools(t.Context(), nil); !errors.Is(err, errDeclined) {
		t.Errorf("a revoked program is told: %v", err)
	}
}
