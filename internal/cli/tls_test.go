package cli

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"patchbay/internal/check"
	"path/filepath"
	"strings"
	"testing"
)

// certificate writes the files of a self-signed certificate.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pair := s.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestCommandsReachAServerWithTLS(t *testing.T) {
	d := withParrot(t)
	cert, key := certificate(t)
	d.env = append(d.env, "PATCHBAY_TLS_CERT="+cert, "PATCHBAY_TLS_KEY="+key)
	s := d.serve()
	if !strings.HasPrefix(s.URL, "https://") {
		t.Fatalf("the server is at %s", s.URL)
	}
	if got := d.ok("ask", "parrot", "hello"); got != "hello\n" {
		t.Errorf("answered %q", got)
	}
	var rows []botRow
	d.json(&rows, "bot", "list")
	if len(rows) != 1 || rows[0].Online == nil {
		t.Errorf("the server was not asked: %+v", rows)
	}
	all := d.examine(exitOK)
	want(t, all, "certificate", check.OK, "is good until")
	want(t, all, "server", check.OK, s.URL)
	// A remote server must have a trusted certificate.
	d.failing(exitFailed, "", []string{"ask", "parrot", "hello", "--server", s.URL, "--key", "k"}, "certificate")
}
