package wire

import (
	"encoding/json"
	"errors"
	"time"
)

// Challenge is the gateway's first event (docs/gateway/protocol/handshake.md, "Handshake"). Clients
// that sign refuse one without a time.
type Challenge struct {
	Nonce string `json:"nonce"`
	TS    int64  `json:"ts"` // milliseconds since 1970
}

// AppendChallenge appends the event.
func AppendChallenge(b []byte, nonce string, now time.Time) []byte {
	return AppendEvent(b, EventChallenge, mustJSON(Challenge{nonce, now.UnixMilli()}), 0)
}

// ErrChallenge means that a challenge cannot be signed.
var ErrChallenge = errors.New("the gateway's challenge has no nonce or no time")

// ParseChallenge parses the payload of the event.
func ParseChallenge(payload []byte) (Challenge, error) {
	var c Challenge
	if json.Unmarshal(payload, &c) != nil || c.Nonce == "" || c.TS <= 0 {
		return Challenge{}, ErrChallenge
	}
	return c, nil
}

// Connect are the parameters of connect.
type Connect struct {
	MinProtocol int64           `json:"minProtocol"`
	MaxProtocol int64           `json:"maxProtocol"`
	Client      Client          `json:"client"`
	Role        string          `json:"role,omitempty"`   // empty: operator
	Scopes      []string        `json:"scopes,omitempty"` // of an operator
	Caps        []string        `json:"caps,omitempty"`
	Commands    []string        `json:"commands,omitempty"` // of a node: what it wants to be called for
	Permissions map[string]bool `json:"permissions,omitempty"`
	Auth        *Auth           `json:"auth,omitempty"`
	Device      *Device         `json:"device,omitempty"`
	PathEnv     string          `json:"pathEnv,omitempty"`
	Locale      string          `json:"locale,omitempty"`
	UserAgent   string          `json:"userAgent,omitempty"`
}

// Client identifies a client program. ID and Mode are from [ClientIDs] and [Modes].
type Client struct {
	ID              string `json:"id"`
	DisplayName     string `json:"displayName,omitempty"`
	Version         string `json:"version"`
	Platform        string `json:"platform"`
	DeviceFamily    string `json:"deviceFamily,omitempty"`
	ModelIdentifier string `json:"modelIdentifier,omitempty"`
	BuildID         string `json:"buildId,omitempty"`
	TimeZone        string `json:"timeZone,omitempty"`
	Mode            string `json:"mode"`
	InstanceID      string `json:"instanceId,omitempty"`
}

// Auth holds the client's credentials, which are secrets.
type Auth struct {
	Token          string `json:"token,omitempty"`
	DeviceToken    string `json:"deviceToken,omitempty"`
	BootstrapToken string `json:"bootstrapToken,omitempty"`
	Password       string `json:"password,omitempty"`
}

// Device proves that a client is a known device.
type Device struct {
	ID        string `json:"id"`
	PublicKey string `json:"publicKey"`
	Signature string `json:"signature"`
	SignedAt  int64  `json:"signedAt"` // milliseconds since 1970
	Nonce     string `json:"nonce"`
}

// ParseConnect parses the parameters of connect and validates what needs no credentials: shape,
// role and version. The error is the response to the client.
func ParseConnect(params []byte) (*Connect, *Error) {
	if e := ShapeConnect.Invalid(params); e != nil {
		e.Close = ClosePolicy
		return nil, e
	}
	// Integers may be spelled 4.0, which encoding/json does not accept for an int.
	var c struct {
		Connect
		MinProtocol json.RawMessage `json:"minProtocol"`
		MaxProtocol json.RawMessage `json:"maxProtocol"`
		Device      *struct {
			Device
			SignedAt json.RawMessage `json:"signedAt"`
		} `json:"device"`
	}
	if err := json.Unmarshal(params, &c); err != nil {
		return nil, refusal(InvalidRequest, "invalid connect params", nil)
	}
	p := &c.Connect
	p.MinProtocol, p.MaxProtocol = integer(c.MinProtocol), integer(c.MaxProtocol)
	if c.Device != nil {
		p.Device = &c.Device.Device
		p.Device.SignedAt = integer(c.Device.SignedAt)
	}
	if p.Role == "" {
		p.Role = RoleOperator
	}
	if p.Role != RoleOperator && p.Role != RoleNode {
		return nil, BadRole
	}
	if !p.supportsProtocol() {
		return nil, ProtocolMismatch(p.MinProtocol, p.MaxProtocol)
	}
	return p, nil
}

// supportsProtocol reports whether client and gateway have a version in common
// (src/gateway/server/ws-connection/connect-admission.ts).
func (c *Connect) supportsProtocol() bool {
	least := int64(Protocol)
	switch {
	case c.Role == RoleNode && c.Client.Mode == ModeNode:
		least = MinNodeProtocol
	case c.Client.Mode == ModeProbe:
		least = MinProbeProtocol
	}
	return c.MinProtocol <= Protocol && c.MaxProtocol >= least && c.MinProtocol <= c.MaxProtocol
}

// Credential returns the token that a client shows and has signed: passwords are not signed
// (src/gateway/server/ws-connection/handshake-auth-helpers.ts).
func (c *Connect) Credential() string {
	if c.Auth == nil {
		return ""
	}
	switch {
	case c.Auth.Token != "":
		return c.Auth.Token
	case c.Auth.DeviceToken != "":
		return c.Auth.DeviceToken
	}
	return c.Auth.BootstrapToken
}

// Hello is the response to connect. A real gateway's is 16 KiB long.
type Hello struct {
	Type     string   `json:"type"` // always hello-ok
	Protocol int      `json:"protocol"`
	Server   Server   `json:"server"`
	Features Features `json:"features"`
	Snapshot Snapshot `json:"snapshot"`
	Auth     Granted  `json:"auth"`
	Policy   Limits   `json:"policy"`
}

// Server identifies the gateway program. ConnID is the id of the connection.
type Server struct {
	Version string `json:"version"`
	ConnID  string `json:"connId"`
	BootID  string `json:"bootId,omitempty"`
}

// Features are the methods and events of a gateway.
type Features struct {
	Methods      []string `json:"methods"`
	Events       []string `json:"events"`
	Capabilities []string `json:"capabilities,omitempty"`
}

// Snapshot is the state at the time of the connect.
type Snapshot struct {
	Presence     []json.RawMessage `json:"presence"`
	Health       json.RawMessage   `json:"health"`
	StateVersion StateVersion      `json:"stateVersion"`
	UptimeMS     int64             `json:"uptimeMs"`
	Sessions     *SessionDefaults  `json:"sessionDefaults,omitempty"`
}

// StateVersion counts state changes.
type StateVersion struct {
	Presence int64 `json:"presence"`
	Health   int64 `json:"health"`
}

// SessionDefaults names the default conversation.
type SessionDefaults struct {
	AgentID        string `json:"defaultAgentId"`
	MainKey        string `json:"mainKey"`
	MainSessionKey string `json:"mainSessionKey"`
}

// Granted holds the granted role and scopes, and a device token, which is a secret, for the next
// connect.
type Granted struct {
	Role        string   `json:"role"`
	Scopes      []string `json:"scopes"`
	DeviceToken string   `json:"deviceToken,omitempty"`
	IssuedAtMS  int64    `json:"issuedAtMs,omitempty"`
}

// Limits are the gateway's limits.
type Limits struct {
	MaxPayload     int64 `json:"maxPayload"`
	MaxBuffered    int64 `json:"maxBufferedBytes"`
	TickIntervalMS int64 `json:"tickIntervalMs"`
}

// JSON returns the payload of the response. Missing required members are filled in with the
// limits of this package.
func (h Hello) JSON() json.RawMessage {
	h.Type = "hello-ok"
	if h.Protocol == 0 {
		h.Protocol = Protocol
	}
	if h.Policy == (Limits{}) {
		h.Policy = Limits{MaxFrame, MaxBuffered, TickInterval.Milliseconds()}
	}
	if h.Snapshot.Presence == nil {
		h.Snapshot.Presence = []json.RawMessage{}
	}
	if h.Snapshot.Health == nil {
		h.Snapshot.Health = json.RawMessage("{}")
	}
	for _, list := range []*[]string{&h.Features.Methods, &h.Features.Events, &h.Auth.Scopes} {
		if *list == nil {
			*list = []string{}
		}
	}
	return mustJSON(h)
}

// ErrHello means that a response to connect is invalid.
var ErrHello = errors.New("the gateway's greeting makes no sense")

// ParseHello parses the payload of the response. Missing limits default to those of this
// package.
func ParseHello(payload []byte) (Hello, error) {
	var h Hello
	if len(payload) > 0 && json.Unmarshal(payload, &h) != nil {
		return Hello{}, ErrHello
	}
	if h.Policy.TickIntervalMS <= 0 || h.Policy.TickIntervalMS > time.Hour.Milliseconds() {
		h.Policy.TickIntervalMS = TickInterval.Milliseconds()
	}
	if h.Policy.MaxPayload <= 0 {
		h.Policy.MaxPayload = MaxFrame
	}
	return h, nil
}
