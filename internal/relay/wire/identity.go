package wire

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"time"
)

// Certificate returns a self-signed certificate of a key. Only the key in it means anything: its
// fingerprint is what the other side knows.
func Certificate(key ed25519.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Unix(0, 0),
		// RFC 5280, section 4.1.2.5: the end of a certificate without one.
		NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// KeyFingerprint returns the fingerprint of a key.
func KeyFingerprint(key ed25519.PrivateKey) (Fingerprint, error) {
	c, err := Certificate(key)
	if err != nil {
		return Fingerprint{}, err
	}
	return FingerprintOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.Leaf}})
}
