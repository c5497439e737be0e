package upstream

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// ClientCredentials is the [Settings.OAuthGrant] of services without people (RFC 6749 §4.4).
const ClientCredentials = "client_credentials"

const (
	// maxKeyLength exceeds the text of an RSA key of 16384 bits.
	maxKeyLength = 16 << 10
	// minRSABits is the least that RFC 7518 §3.3 allows, and maxRSABits limits the work of signing.
	minRSABits, maxRSABits = 2048, 8192
)

const (
	msgClientID     = i18n.Message("client_secret is set without client_id; set both, or take it out")
	msgGrant        = i18n.Message("oauth_grant is %q; choose client_credentials, or leave it out if a person signs in")
	msgGrantNeeds   = i18n.Message("oauth_grant=client_credentials needs client_id, and client_secret or private_key; the server where one signs in has given them to you")
	msgGrantTwice   = i18n.Message("client_secret and private_key are both set; keep the one that the server where one signs in expects")
	msgGrantToken   = i18n.Message("token and the header Authorization take the place of signing in; take them out, or oauth_grant")
	msgGrantMissing = i18n.Message("private_key, key_id and oauth_scope are for oauth_grant=client_credentials; set that too, or take them out")
	msgScope        = i18n.Message("oauth_scope is no list of rights, separated by single spaces")
	msgKey          = i18n.Message("private_key is not a private key in PEM (-----BEGIN PRIVATE KEY-----) of the kind EC P-256, RSA with %d to %d bits or Ed25519, without a password")
)

// IsMachine reports whether Patchbay signs in to the server by itself.
func (s *Settings) IsMachine() bool { return s.OAuthGrant != "" && s.SignsIn() }

// hasClient reports whether there are settings of an OAuth client.
func (s *Settings) hasClient() bool {
	return s.ClientID != "" || s.ClientSecret != "" || s.OAuthGrant != "" || s.PrivateKey != "" || s.KeyID != "" ||
		s.Scope != ""
}

// checkClient validates the settings of an OAuth client.
func (s *Settings) checkClient() error {
	err := errors.Join(settings.CheckCredential("client_id", s.ClientID),
		settings.CheckCredential("client_secret", s.ClientSecret), settings.CheckCredential("key_id", s.KeyID))
	switch {
	case err != nil:
		return err
	case s.OAuthGrant == "" && (s.PrivateKey != "" || s.KeyID != "" || s.Scope != ""):
		return msgGrantMissing.Errorf()
	case s.OAuthGrant == "" && s.ClientSecret != "" && s.ClientID == "":
		return msgClientID.Errorf()
	case s.OAuthGrant == "":
		return nil
	case s.OAuthGrant != ClientCredentials:
		return msgGrant.Errorf(s.OAuthGrant)
	case !s.SignsIn():
		return msgGrantToken.Errorf()
	case s.ClientSecret != "" && s.PrivateKey != "":
		return msgGrantTwice.Errorf()
	case s.ClientID == "" || s.ClientSecret == "" && s.PrivateKey == "":
		return msgGrantNeeds.Errorf()
	case strings.ContainsFunc(s.Scope, notScope) || strings.Join(strings.Fields(s.Scope), " ") != s.Scope:
		return msgScope.Errorf()
	}
	if s.PrivateKey != "" {
		_, err = ParsePrivateKey(s.PrivateKey)
	}
	return err
}

// notScope reports whether a character is in no list of scopes (RFC 6749 §3.3).
func notScope(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }

// ParsePrivateKey reads a key that can sign assertions, an *ecdsa.PrivateKey of P-256, an
// *rsa.PrivateKey or an ed25519.PrivateKey. Errors do not quote it.
func ParsePrivateKey(text string) (crypto.Signer, error) {
	wrong := msgKey.Errorf(minRSABits, maxRSABits)
	if len(text) > maxKeyLength {
		return nil, wrong
	}
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, wrong
		}
		switch key := parseKey(block).(type) {
		case *ecdsa.PrivateKey:
			if key.Curve == elliptic.P256() {
				return key, nil
			}
		case *rsa.PrivateKey:
			if bits := key.N.BitLen(); bits >= minRSABits && bits <= maxRSABits {
				return key, nil
			}
		case ed25519.PrivateKey:
			return key, nil
		}
	}
}

// parseKey returns the key of a block; nil: it is none. Files of EC keys have a block before it.
func parseKey(block *pem.Block) (key any) {
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil
	}
	return key
}

// keyLines returns the secret lines of a key in PEM.
func keyLines(text string) (list []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-----") {
			list = append(list, line)
		}
	}
	return list
}
