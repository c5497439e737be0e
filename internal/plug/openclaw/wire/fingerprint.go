package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Fingerprint returns the fingerprint of a certificate in DER: the SHA-256 of all of it as 64 small
// hexadecimal digits, as OpenClaw writes it in setup codes, in discovery records and in its setting
// gateway.remote.tlsFingerprint.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// ParseFingerprint returns a fingerprint as [Fingerprint] does, and false if it is none. Like
// OpenClaw's --tls-fingerprint, it also takes capitals, a colon between bytes as openssl prints
// them, and sha256: in front (packages/gateway-client/src/client-address-utils.ts,
// normalizeTlsFingerprint).
func ParseFingerprint(text string) (string, bool) {
	const prefix, digits, colons = "sha256:", 2 * sha256.Size, sha256.Size - 1
	text = strings.ToLower(strings.TrimSpace(text))
	text = strings.TrimPrefix(text, prefix)
	if len(text) == digits+colons {
		for i := 2; i < len(text); i += 3 {
			if text[i] != ':' {
				return "", false
			}
		}
		text = strings.ReplaceAll(text, ":", "")
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != sha256.Size {
		return "", false
	}
	return text, true
}
