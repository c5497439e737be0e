package oidc

import (
	"encoding/json"
	"testing"
)

// What a provider sends as its keys, and as claims of a person, is parsed without a panic, and no
// claim of another form than expected proves anything.
func FuzzDocuments(f *testing.F) {
	for _, seed := range []string{`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"oct","k":"AQAB"},7]}`,
		`{"email":"a@b.example","email_verified":"true","groups":"x","auth_time":1.5}`,
		`{"email":"a@b.example","email_verified":[],"groups":[1]}`, `[]`, `{"keys":null}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseKeys(text)
		if err == nil && len(keys) == 0 {
			t.Error("no keys are no error")
		}
		for _, k := range keys {
			if !k.IsPublic() {
				t.Error("a key is not public")
			}
		}
		var c claims
		if json.Unmarshal(text, &c) != nil {
			return
		}
		id := Identity{Subject: "s"}
		id.add(&c)
		if id.Email != "" && !bool(c.Verified) {
			t.Errorf("%q is not verified", id.Email)
		}
		if id.Label() == "" || len(id.Label()) > 254 {
			t.Errorf("it is called %q", id.Label())
		}
	})
}
