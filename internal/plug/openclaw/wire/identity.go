package wire

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

var b64 = base64.RawURLEncoding.Strict()

// Identity is the key pair by which gateways recognize a device. It is secret and immutable.
type Identity struct {
	key ed25519.PrivateKey
	id  string
}

// NewIdentity returns a new identity.
func NewIdentity() Identity {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // the reader never fails
	}
	return identity(key)
}

func identity(key ed25519.PrivateKey) Identity {
	return Identity{key, DeviceID(key.Public().(ed25519.PublicKey))}
}

// DeviceID returns the device id for a public key: its SHA-256 in hex
// (docs/gateway/protocol/auth.md, "Device identity and pairing").
func DeviceID(public []byte) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:])
}

// ID returns the device's id, which is its node's id too.
func (i Identity) ID() string { return i.id }

// PublicKey returns the device's public key in its wire encoding.
func (i Identity) PublicKey() string { return b64.EncodeToString(i.key.Public().(ed25519.PublicKey)) }

// storedIdentity is the storage format of an identity.
type storedIdentity struct {
	Seed string `json:"seed"`
	ID   string `json:"deviceId"`
}

// MarshalJSON returns the identity with its private key, for safe storage.
func (i Identity) MarshalJSON() ([]byte, error) {
	if len(i.key) == 0 {
		return nil, errIdentity
	}
	return json.Marshal(storedIdentity{b64.EncodeToString(i.key.Seed()), i.id})
}

var errIdentity = errors.New("this is no identity of a device")

// UnmarshalJSON parses the output of MarshalJSON.
func (i *Identity) UnmarshalJSON(data []byte) error {
	var s storedIdentity
	if json.Unmarshal(data, &s) != nil {
		return errIdentity
	}
	seed, err := b64.DecodeString(s.Seed)
	if err != nil || len(seed) != ed25519.SeedSize {
		return errIdentity
	}
	made := identity(ed25519.NewKeyFromSeed(seed))
	if s.ID != made.id {
		return errIdentity
	}
	*i = made
	return nil
}

// Sign fills in the device of a connecting client. All other fields of c must already have their
// final values.
func (i Identity) Sign(c *Connect, challenge Challenge) {
	d := &Device{ID: i.id, PublicKey: i.PublicKey(), SignedAt: challenge.TS, Nonce: challenge.Nonce}
	c.Device = d
	d.Signature = b64.EncodeToString(ed25519.Sign(i.key, signedPayload(c, true)))
}

// signedPayload returns the signed text: version 3, or version 2, which older devices sign
// (packages/gateway-client/src/device-auth.ts, buildDeviceAuthPayloadV3 and
// buildDeviceAuthPayload).
func signedPayload(c *Connect, v3 bool) []byte {
	version := "v2"
	if v3 {
		version = "v3"
	}
	role := c.Role
	if role == "" {
		role = RoleOperator
	}
	parts := []string{
		version, c.Device.ID, c.Client.ID, c.Client.Mode, role, strings.Join(c.Scopes, ","),
		strconv.FormatInt(c.Device.SignedAt, 10), c.Credential(), c.Device.Nonce,
	}
	if v3 {
		parts = append(parts, lowerASCII(c.Client.Platform), lowerASCII(c.Client.DeviceFamily))
	}
	return []byte(strings.Join(parts, "|"))
}

// lowerASCII returns a text in its signed form: trimmed, and with ASCII letters in lower case
// (packages/gateway-client/src/device-auth.ts, normalizeDeviceMetadataForAuth).
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.TrimSpace(s))
}

// Errors of a device that fails verification.
var (
	DeviceMismatch   = deviceRefusal("device identity mismatch", "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch")
	SignatureExpired = deviceRefusal("device signature expired", "DEVICE_AUTH_SIGNATURE_EXPIRED",
		"device-signature-stale")
	NonceRequired    = deviceRefusal("device nonce required", "DEVICE_AUTH_NONCE_REQUIRED", "device-nonce-missing")
	NonceMismatch    = deviceRefusal("device nonce mismatch", "DEVICE_AUTH_NONCE_MISMATCH", "device-nonce-mismatch")
	SignatureInvalid = deviceRefusal("device signature invalid", "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature")
	PublicKeyInvalid = deviceRefusal("device public key invalid", "DEVICE_AUTH_PUBLIC_KEY_INVALID", "device-public-key")
)

func deviceRefusal(message, code, reason string) *Error {
	return refusal(InvalidRequest, message, details(code, "reason", reason))
}

// Verify checks a client's device signature, in OpenClaw's order of checks
// (src/gateway/server/ws-connection/connect-device-proof.ts). It returns nil if it is valid,
// otherwise the response. nonce is that of the challenge. Without a device it returns
// [IdentityRequired].
func (c *Connect) Verify(nonce string, now time.Time) *Error {
	d := c.Device
	if d == nil {
		return IdentityRequired
	}
	key, err := b64.DecodeString(d.PublicKey)
	if err != nil || d.ID != DeviceID(key) {
		return DeviceMismatch
	}
	if len(key) != ed25519.PublicKeySize {
		return PublicKeyInvalid
	}
	if age := now.Sub(time.UnixMilli(d.SignedAt)); age > MaxClockSkew || age < -MaxClockSkew {
		return SignatureExpired
	}
	given := strings.TrimSpace(d.Nonce)
	if given == "" {
		return NonceRequired
	}
	if subtle.ConstantTimeCompare([]byte(given), []byte(nonce)) != 1 {
		return NonceMismatch
	}
	signature, err := b64.DecodeString(d.Signature)
	if err != nil || len(signature) != ed25519.SignatureSize {
		return SignatureInvalid
	}
	if !ed25519.Verify(key, signedPayload(c, true), signature) &&
		!ed25519.Verify(key, signedPayload(c, false), signature) {
		return SignatureInvalid
	}
	return nil
}
