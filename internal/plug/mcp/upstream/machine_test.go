package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
)

func pemOf(kind string, text []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}))
}

// What cannot sign in by itself is refused with a remedy, and without its secrets.
func TestMachineSettings(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip(err) // some configurations make no such keys at all
	}
	key := func(c elliptic.Curve) *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	text, err := x509.MarshalECPrivateKey(key(elliptic.P256()))
	good := "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" + pemOf("EC PRIVATE KEY", text, err)
	text, err = x509.MarshalPKCS8PrivateKey(key(elliptic.P384()))
	otherCurve := pemOf("PRIVATE KEY", text, err)
	const url, id, secret = "https://example.com/mcp", "robot", "very secret"
	for name, c := range map[string]struct {
		s    Settings
		want string
	}{
		"secret":  {Settings{ClientID: id, ClientSecret: secret, OAuthGrant: ClientCredentials, Scope: "a b:c"}, ""},
		"key":     {Settings{ClientID: id, PrivateKey: good, KeyID: "k1", OAuthGrant: ClientCredentials}, ""},
		"both":    {Settings{ClientID: id, ClientSecret: secret, PrivateKey: good, OAuthGrant: ClientCredentials}, "both set"},
		"nothing": {Settings{ClientID: id, OAuthGrant: ClientCredentials}, "needs client_id"},
		"no id":   {Settings{ClientSecret: secret, OAuthGrant: ClientCredentials}, "needs client_id"},
		"another grant": {Settings{ClientID: id, ClientSecret: secret, OAuthGrant: "password"},
			"choose client_credentials"},
		"token":           {Settings{ClientID: id, ClientSecret: secret, OAuthGrant: ClientCredentials, Token: "x"}, "take the place"},
		"header":          {Settings{ClientID: id, ClientSecret: secret, OAuthGrant: ClientCredentials, Headers: map[string]string{"authorization": "x"}}, "take the place"},
		"key of a person": {Settings{ClientID: id, PrivateKey: good}, "oauth_grant"},
		"scope":           {Settings{ClientID: id, ClientSecret: secret, OAuthGrant: ClientCredentials, Scope: "a\nb"}, "oauth_scope"},
		"no key":          {Settings{ClientID: id, PrivateKey: secret, OAuthGrant: ClientCredentials}, "BEGIN PRIVATE KEY"},
		"P-384":           {Settings{ClientID: id, PrivateKey: otherCurve, OAuthGrant: ClientCredentials}, "P-256"},
		"weak": {Settings{ClientID: id, PrivateKey: pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(small), nil),
			OAuthGrant: ClientCredentials}, "2048"},
		"public": {Settings{ClientID: id, PrivateKey: strings.ReplaceAll(good, "EC PRIVATE", "PUBLIC"),
			OAuthGrant: ClientCredentials}, "BEGIN PRIVATE KEY"},
	} {
		c.s.URL = url
		err := c.s.Validate()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), secret)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := Settings{URL: url, ClientID: id, PrivateKey: good, OAuthGrant: ClientCredentials}
	for line := range strings.Lines(good[strings.Index(good, "-----BEGIN EC PRIVATE"):]) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "---") && s.redactor().Replace(line) != "[secret]" {
			t.Errorf("a line of the key is shown: %s", s.redactor().Replace(line))
		}
	}
	for name, s := range map[string]Settings{"command": {Command: "x", OAuthGrant: ClientCredentials},
		"api": {Transport: OpenAPI, URL: url, PrivateKey: good}} {
		if s.Validate() == nil {
			t.Errorf("%s may have settings of OAuth", name)
		}
	}
	if s.ValidateInbound() == nil {
		t.Error("an inbound server may have settings of OAuth")
	}
}

func FuzzParsePrivateKey(f *testing.F) {
	f.Add("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n")
	f.Add("-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, text string) {
		if key, err := ParsePrivateKey(text); (key == nil) != (err != nil) || err == nil && key.Public() == nil {
			t.Errorf("%v, %v", key, err)
		}
	})
}
