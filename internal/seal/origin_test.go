package seal

import "testing"

func TestOrigin(t *testing.T) {
	for address, want := range map[string]string{
		"https://api.openai.com/v1":       "https://api.openai.com:443",
		"HTTPS://API.openai.com:443/v2?x": "https://api.openai.com:443",
		" wss://api.openai.com/mcp ":      "https://api.openai.com:443",
		"ws://127.0.0.1:18789":            "http://127.0.0.1:18789",
		"http://127.0.0.1":                "http://127.0.0.1:80",
		"http://[::1]:80/":                "http://[::1]:80",
		"https://user@evil.example/":      "https://evil.example:443",
		"":                                "",
		"no address":                      "no address",
	} {
		if got := Origin(address); got != want {
			t.Errorf("%q is of %q, want %q", address, got, want)
		}
	}
}

func TestSealedFor(t *testing.T) {
	b, err := New("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	sealed := b.SealFor("https://a:443", "key")
	if plain, err := b.OpenFor("https://a:443", sealed); err != nil || plain != "key" {
		t.Errorf("%q, %v", plain, err)
	}
	for what, text := range map[string]string{
		"another origin":       b.SealFor("https://b:443", "key"),
		"a longer origin":      b.SealFor("https://a:4433", "key"),
		"no origin":            b.Seal("key"),
		"a value that claims":  b.SealFor("https://b:443", "x\nhttps://a:443\nkey"),
		"one that is in front": b.SealFor("https://a:44", "3\nkey"),
	} {
		if plain, err := b.OpenFor("https://a:443", text); err != ErrOrigin {
			t.Errorf("%s: %q, %v", what, plain, err)
		}
	}
	if b.SealFor("https://a:443", "") != "" {
		t.Error("nothing is sealed")
	}
	if plain, err := b.OpenFor("https://a:443", "as it is"); err != nil || plain != "as it is" {
		t.Errorf("%q, %v", plain, err)
	}
}
