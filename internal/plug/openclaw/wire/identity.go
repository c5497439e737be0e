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

// Identity is the key by which gateways recognise a device. It is a secret, and not
// changed after it was made.
type Identity struct {
	key ed25519.PrivateKey
	id  string
}

// NewIdentity makes a device.
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

// DeviceID is the id of the device with a public key.
func DeviceID(public []byte) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:])
}

// ID is the device's id, which is its node's id too.
func (i Identity) ID() string { return i.id }

// PublicKey is the device's public key, as it travels.
func (i Identity) PublicKey() string { return b64.EncodeToString(i.key.Public().(ed25519.PublicKey)) }

// stored is how an identity is kept.
type stored struct {
	Seed string `json:"seed"`
	ID   string `json:"deviceId"`
}

// MarshalJSON is the identity with its secret, to be kept in a safe place.
func (i Identity) MarshalJSON() ([]byte, error) {
	if len(i.key) == 0 {
		return nil, errIdentity
	}
	return json.Marshal(stored{b64.EncodeToString(i.key.Seed()), i.id})
}

var errIdentity = errors.New("this is no identity of a device")

// UnmarshalJSON reads what MarshalJSON has written.
func (i *Identity) UnmarshalJSON(data []byte) error {
	var s stored
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

// Sign fills in the device of a client that connects. Everything else in c must be
// as it will be sent.
func (i Identity) Sign(c *Connect, challenge Challenge) {
	d := &Device{ID: i.id, PublicKey: i.PublicKey(), SignedAt: challenge.TS, Nonce: challenge.Nonce}
	c.Device = d
	d.Signature = b64.EncodeToString(ed25519.Sign(i.key, signed(c, true)))
}

// signed is what a device signs: version 3, or version 2, which older ones do.
func signed(c *Connect, v3 bool) []byte {
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
		parts = append(parts, lower(c.Client.Platform), lower(c.Client.DeviceFamily))
	}
	return []byte(strings.Join(parts, "|"))
}

// lower is a text as it is signed: without space around it, and in lower case as far
// as ASCII has one.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.TrimSpace(s))
}

// The refusals of a device that does not prove what it is.
var (
	DeviceMismatch   = deviceRefusal("device identity mismatch", "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch")
	SignatureExpired = deviceRefusal("device signature expired", "DEVICE_AUTH_SIGNATURE_EXPIRED", "device-signature-stale")
	NonceRequired    = deviceRefusal("device nonce required", "DEVICE_AUTH_NONCE_REQUIRED", "device-nonce-missing")
	NonceMismatch    = deviceRefusal("device nonce mismatch", "DEVICE_AUTH_NONCE_MISMATCH", "device-nonce-mismatch")
	SignatureInvalid = deviceRefusal("device signature invalid", "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature")
	PublicKeyInvalid = deviceRefusal("device public key invalid", "DEVICE_AUTH_PUBLIC_KEY_INVALID", "device-public-key")
)

func deviceRefusal(message, code, reason string) *Error {
	return refusal(InvalidRequest, message, details(code, "reason", reason))
}

// Verify says whether a client is the device that it says it is: nil, or what it is
// told, in the order in which OpenClaw looks. The nonce is that of the challenge it was sent. Without a device there is
// nothing to verify, and the answer is [IdentityRequired].
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
	if age := now.Sub(time.UnixMilli(d.SignedAt)); age > Skew || age < -Skew {
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
	if !ed25519.Verify(key, signed(c, true), signature) && !ed25519.Verify(key, signed(c, false), signature) {
		return SignatureInvalid
	}
	return nil
}
