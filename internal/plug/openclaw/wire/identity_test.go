package wire

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// seven returns a device with a well-known key.
func seven() Identity { return identity(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))) }

func sevenConnect() *Connect {
	return &Connect{
		Client: Client{ID: ClientNode, Mode: ModeNode, Platform: "Linux ", DeviceFamily: "Linux"},
		Role:   RoleNode,
		Auth:   &Auth{Token: "test-token-123"},
	}
}

var sevenChallenge = Challenge{"11111111-2222-3333-4444-555555555555", 1700000000000}

// A real gateway has accepted signatures of the same code. The key is public.
func TestVectors(t *testing.T) {
	i, c := seven(), sevenConnect()
	if i.PublicKey() != "6kpsY-KcUgq-9VB7Ey7F-ZVHdq6-vnuSQh7qaRRG0iw" ||
		i.ID() != "fe812c12f3ab4ce6ac5db69ac352f906cb1b11ef43fb33e252ef7ff552263889" {
		t.Fatalf("%s %s", i.ID(), i.PublicKey())
	}
	i.Sign(c, sevenChallenge)
	const v2 = "v2|fe812c12f3ab4ce6ac5db69ac352f906cb1b11ef43fb33e252ef7ff552263889|node-host|node|node||1700000000000|test-token-123|11111111-2222-3333-4444-555555555555"
	if got := string(signedPayload(c, true)); got != strings.Replace(v2, "v2", "v3", 1)+"|linux|linux" {
		t.Error(got)
	}
	if got := string(signedPayload(c, false)); got != v2 {
		t.Error(got)
	}
	now := time.UnixMilli(sevenChallenge.TS)
	for _, signature := range []string{
		"84MLDHiUgJgqmEurCM02nrdOIlzj8JrFyLrIhvmXhY3JayB9HrxEUCAmzqm-4Z9xl7H0guiij6a14Kmj_-JWCQ",
		"FF0uXfHhN4syR6QsOu8KEdUxEZLTlpZjnLIgrJbJeO8zOBQuyAy__UVrv7J2RbW6PSRm-AF5rJFZdECmHjwqDQ", // version 2
	} {
		c.Device.Signature = signature
		if e := c.Verify(sevenChallenge.Nonce, now); e != nil {
			t.Errorf("%s: %v", signature, e)
		}
	}
	c2 := sevenConnect()
	i.Sign(c2, sevenChallenge)
	if c2.Device.Signature != "84MLDHiUgJgqmEurCM02nrdOIlzj8JrFyLrIhvmXhY3JayB9HrxEUCAmzqm-4Z9xl7H0guiij6a14Kmj_-JWCQ" {
		t.Error("another signature than OpenClaw's")
	}
}

// Errors are found in OpenClaw's order: each case also has all errors that come later.
func TestVerifyOrder(t *testing.T) {
	now := time.UnixMilli(sevenChallenge.TS)
	other := NewIdentity()
	steps := []struct {
		want  *Error
		spoil func(*Connect)
	}{
		{SignatureInvalid, func(c *Connect) { c.Auth.Token = "another" }},
		{NonceMismatch, func(c *Connect) { c.Device.Nonce = "another" }},
		{NonceRequired, func(c *Connect) { c.Device.Nonce = " " }},
		{SignatureExpired, func(c *Connect) { c.Device.SignedAt -= MaxClockSkew.Milliseconds() + 1 }},
		{DeviceMismatch, func(c *Connect) { c.Device.PublicKey = other.PublicKey() }},
		{DeviceMismatch, func(c *Connect) { c.Device.PublicKey = "no key" }},
		{IdentityRequired, func(c *Connect) { c.Device = nil }},
	}
	c := sevenConnect()
	seven().Sign(c, sevenChallenge)
	if e := c.Verify(sevenChallenge.Nonce, now); e != nil {
		t.Fatal(e)
	}
	for _, s := range steps {
		s.spoil(c)
		if e := c.Verify(sevenChallenge.Nonce, now); e != s.want {
			t.Errorf("%v, not %v", e, s.want)
		}
	}
	for _, e := range []*Error{DeviceMismatch, SignatureExpired, NonceRequired, NonceMismatch, SignatureInvalid,
		PublicKeyInvalid, IdentityRequired} {
		if e.Close != ClosePolicy || e.Detail() == "" {
			t.Errorf("%v", e)
		}
	}
	short := sevenConnect()
	seven().Sign(short, sevenChallenge)
	short.Device.PublicKey, short.Device.ID = b64.EncodeToString([]byte("short")), DeviceID([]byte("short"))
	if e := short.Verify(sevenChallenge.Nonce, now); e != PublicKeyInvalid {
		t.Error(e)
	}
}

// A change of any signed member invalidates the signature.
func TestSignedMembers(t *testing.T) {
	now := time.UnixMilli(sevenChallenge.TS)
	for name, change := range map[string]func(*Connect){
		"id":       func(c *Connect) { c.Client.ID = ClientCLI },
		"mode":     func(c *Connect) { c.Client.Mode = ModeCLI },
		"role":     func(c *Connect) { c.Role = RoleOperator },
		"scopes":   func(c *Connect) { c.Scopes = []string{ScopeAdmin} },
		"time":     func(c *Connect) { c.Device.SignedAt++ },
		"token":    func(c *Connect) { c.Auth.Token = "" },
		"platform": func(c *Connect) { c.Client.Platform = "macos" },
		"family":   func(c *Connect) { c.Client.DeviceFamily = "Mac" },
	} {
		c := sevenConnect()
		seven().Sign(c, sevenChallenge)
		change(c)
		if e := c.Verify(sevenChallenge.Nonce, now); e != SignatureInvalid {
			t.Errorf("%s: %v", name, e)
		}
	}
	c := sevenConnect()
	seven().Sign(c, sevenChallenge)
	c.Client.Platform, c.Auth.Password, c.Client.Version = "LINUX", "p", "2"
	if e := c.Verify(sevenChallenge.Nonce, now); e != nil {
		t.Error(e)
	}
}

func TestKeepIdentity(t *testing.T) {
	i := NewIdentity()
	data, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	var again Identity
	if err := json.Unmarshal(data, &again); err != nil || again.ID() != i.ID() || !again.key.Equal(i.key) {
		t.Errorf("%v", err)
	}
	other, _ := json.Marshal(NewIdentity())
	for _, bad := range []string{
		`{}`, `[]`, `null`, `{"seed":"AAAA","deviceId":""}`,
		`{"seed":"` + strings.Repeat("A", 43) + `","deviceId":"` + i.ID() + `"}`,
	} {
		if json.Unmarshal([]byte(bad), &again) == nil && bad != `null` {
			t.Errorf("%s was taken for an identity", bad)
		}
	}
	if bytes.Equal(data, other) {
		t.Error("two devices with one key")
	}
	if _, err := json.Marshal(Identity{}); err == nil {
		t.Error("an identity that is none was written")
	}
}
