package client

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

// Certificate is a gateway's certificate that is not accepted.
type Certificate struct {
	// Shown is the fingerprint of the certificate that the gateway has, as [wire.Fingerprint]
	// writes it.
	Shown string
	// Pinned is the fingerprint that was accepted before; empty: none.
	Pinned string
}

const msgPin = i18n.Message("tls_fingerprint is %q; it is the SHA-256 fingerprint of a certificate, 64 hexadecimal digits")

const msgPinPlain = i18n.Message("tls_fingerprint is set, so the address has to begin with wss://")

// ParsePin reads a setting tls_fingerprint for a gateway at an address, and returns it as [Options]
// need it. Empty: no certificate is pinned.
func ParsePin(setting, address string) (string, error) {
	if strings.TrimSpace(setting) == "" {
		return "", nil
	}
	if at, err := ParseURL(address); err == nil && strings.HasPrefix(at, "ws://") {
		return "", msgPinPlain.Errorf()
	}
	pin, ok := wire.ParseFingerprint(setting)
	if !ok {
		return "", msgPin.Errorf(clip(setting))
	}
	return pin, nil
}

// tlsConfig returns the configuration of connections to a gateway at an address. Without a pin, the
// certificate has to be valid for the address by the roots; nil: the system's. With one it has to
// be exactly that certificate, whoever has issued it, as OpenClaw's own clients do. Handshakes with
// another one fail with a [*ConnectionError] of problem [Untrusted] or [Changed].
func tlsConfig(address, pin string, roots *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The certificate is verified below. Connections are never resumed, which would skip that.
		InsecureSkipVerify: true, //nolint:gosec // see VerifyConnection
		VerifyConnection: func(s tls.ConnectionState) error {
			return verifyCertificate(s, address, pin, roots)
		},
	}
}

// verifyCertificate verifies the certificates of a handshake, the gateway's own one first.
func verifyCertificate(s tls.ConnectionState, address, pin string, roots *x509.CertPool) error {
	chain := s.PeerCertificates
	if len(chain) == 0 {
		return newConnectionError(Insecure, msgInsecure.With(), nil)
	}
	own := &Certificate{Shown: wire.Fingerprint(chain[0].Raw), Pinned: pin}
	switch {
	case pin == own.Shown:
		return nil
	case pin != "":
		e := newConnectionError(Changed, msgChanged.With(pin, own.Shown), nil)
		e.Certificate = own
		return e
	}
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	// The name as it was sent is in ASCII; addresses are not sent.
	opts := x509.VerifyOptions{DNSName: cmp.Or(s.ServerName, u.Hostname()), Roots: roots,
		Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	if _, err := chain[0].Verify(opts); err != nil {
		e := newConnectionError(Untrusted, untrusted(err).With(own.Shown), err)
		e.Certificate = own
		return e
	}
	return nil
}

// untrusted returns the text about a certificate that is not valid.
func untrusted(err error) i18n.Message {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return msgOtherName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return msgOutOfDate
	}
	return msgUntrusted
}
