package wire_test

import (
	"strings"
	"testing"

	"patchbay/internal/plug/openclaw/wire"
)

// The fingerprint of a certificate is written as OpenClaw writes it, and read in all its forms.
func TestFingerprint(t *testing.T) {
	want := wire.Fingerprint([]byte("a certificate"))
	if len(want) != 64 || want != strings.ToLower(want) {
		t.Fatalf("%q", want)
	}
	var pairs []string
	for i := 0; i < len(want); i += 2 {
		pairs = append(pairs, strings.ToUpper(want[i:i+2]))
	}
	openssl := strings.Join(pairs, ":")
	for _, text := range []string{want, strings.ToUpper(want), openssl, " " + want + "\n", "sha256:" + want,
		"SHA256:" + openssl} {
		if got, ok := wire.ParseFingerprint(text); !ok || got != want {
			t.Errorf("%q is %q, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "sha256:", want[1:], want + "0", want[:63] + "x", "sha1:" + want,
		openssl + ":00", strings.Replace(openssl, ":", "-", 1), strings.Replace(openssl, ":", "0", 1),
		want[:32] + ":" + want[32:]} {
		if got, ok := wire.ParseFingerprint(text); ok {
			t.Errorf("%q is taken for %q", text, got)
		}
	}
}
