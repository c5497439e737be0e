package openclawtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// SelfMade is a certificate that no authority has issued, with the subject and the missing
// alternative names of the one that OpenClaw makes for itself.
type SelfMade struct {
	// Cert and Key are PEM.
	Cert, Key []byte
	// DER is the certificate.
	DER []byte
}

// NewSelfMade makes a certificate.
func NewSelfMade(t testing.TB) SelfMade {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "openclaw-gateway"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return SelfMade{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		DER:  der,
	}
}

// Pair returns the certificate as servers need it.
func (c SelfMade) Pair(t testing.TB) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(c.Cert, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Write writes the certificate and its key into files of these names.
func (c SelfMade) Write(t testing.TB, cert, key string) {
	t.Helper()
	for name, data := range map[string][]byte{cert: c.Cert, key: c.Key} {
		fresh := filepath.Join(filepath.Dir(name), "new-"+filepath.Base(name))
		err := os.WriteFile(fresh, data, 0o600)
		if err == nil {
			err = os.Rename(fresh, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
