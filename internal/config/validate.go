package config

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/settings"
)

const (
	// minSecret is the minimum length of the secret, in bytes, that makes guessing infeasible.
	minSecret = 32
	// maxHost is the maximum length of a DNS name.
	maxHost = 253
	// maxItems bounds the problems that are reported for one list.
	maxItems = 10
)

// localName is a label of a host name (RFC 1123 section 2.1), with room for a number.
var localName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])?$`)

// Validate returns [Problems] with everything that is out of range or contradictory, or nil. It
// checks c alone, not whether files and servers exist.
func (c *Config) Validate() error { return c.check().err() }

func (c *Config) check() Problems {
	p := &Problems{}
	c.checkRanges(p)
	c.checkServer(p)
	c.checkInstances(p)
	c.checkTimes(p)
	c.checkOutside(p)
	c.checkBoards(p)
	c.checkOIDC(p)
	c.checkHTTPS(p)
	return *p
}

// checkRanges checks the ranges and choices of the tags.
func (c *Config) checkRanges(p *Problems) {
	for _, k := range known.keys {
		v := k.of(c)
		if len(k.oneOf) > 0 && !slices.Contains(k.oneOf, v.(string)) {
			p.add(k.Path, "", "is "+show(v.(string)), "give "+k.wanted())
		}
		if k.min != nil && (number(v) < number(k.min) || number(v) > number(k.max)) {
			p.add(k.Path, "", "is "+k.text(v), "give "+k.wanted())
		}
	}
}

// number returns the value of any of the integer types.
func number(v any) int64 { return reflect.ValueOf(v).Int() }

// checkAnki checks the port for programs for Anki.
func (c *Config) checkAnki(p *Problems) {
	if c.Learn.AnkiKey == Masked {
		p.add("learn.anki_key", "", "is the mask that stands for a key that is not shown", "give the key itself")
	}
	at := c.Learn.AnkiListen
	if at == "" {
		return
	}
	checkAddress(p, "learn.anki_listen", at)
	if at == c.Listen && !strings.HasSuffix(at, ":0") {
		p.add("learn.anki_listen", "", "is the same as listen",
			"give another port, or leave it empty: /anki is served there too")
	}
	if host, _, err := net.SplitHostPort(at); c.Learn.AnkiKey != "" && err == nil && !netx.IsLoopback(host) {
		p.add("learn.anki_key", "", "is for programs of this machine, and learn.anki_listen is "+show(at),
			"set learn.anki_listen to 127.0.0.1:8765, or let programs send a key")
	}
}

func (c *Config) checkServer(p *Problems) {
	if c.LocalName != "" && !localName.MatchString(c.LocalName) {
		p.add("local_name", "", "is "+show(c.LocalName), "give letters a to z, digits and hyphens, at most 60, or nothing")
	}
	checkAddress(p, "listen", c.Listen)
	if c.Metrics.Listen != "" {
		checkAddress(p, "metrics.listen", c.Metrics.Listen)
		if c.Metrics.Listen == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
			p.add("metrics.listen", "", "is the same as listen",
				"give another port, or leave it empty to serve /metrics with everything else")
		}
	}
	c.checkAnki(p)
	if c.PublicURL != "" && !isOrigin(c.PublicURL) {
		p.add("public_url", "", "is "+show(c.PublicURL),
			"give scheme, host and port alone, such as https://board.example.org")
	}
	if c.Data == "" {
		p.add("data", "", "is not given and this account has no home folder",
			"give the data folder, such as --data /var/lib/patchbay")
	}
	if c.Secret != "" {
		if fault := secretProblem(c.Secret); fault != "" {
			p.add("secret", "", fault, `give what "openssl rand -hex 32" prints`)
		}
	}
	checkPair(p, "tls.cert", c.TLS.Cert, "tls.key", c.TLS.Key)
	checkPrefixes(p, "proxies", c.Proxies)
	c.checkRelay(p)
	if c.Limits.BodyImages < c.Limits.Body {
		p.add("limits.body_images", "", "is smaller than limits.body, which is "+c.Limits.Body.String(),
			"give at least that")
	}
}

// joinCode matches the join code of a relay.
var joinCode = regexp.MustCompile(`^pbjoin_[A-Za-z0-9_-]{70}$`)

func (c *Config) checkRelay(p *Problems) {
	checkItems(p, "relay.servers", c.Relay.Servers, func(text string) bool {
		host, port, err := net.SplitHostPort(text)
		if err != nil {
			return isHostPattern(text) && !strings.Contains(text, "*")
		}
		_, err = strconv.ParseUint(port, 10, 16)
		return err == nil && isHostPattern(host) && !strings.Contains(host, "*")
	}, "relays such as relay.example.org or relay.example.org:8443")
	for code := range strings.SplitSeq(c.Relay.Key, ",") {
		if code = strings.TrimSpace(code); code != "" && !joinCode.MatchString(code) {
			p.add("relay.key", "", "is no join code", "give what patchbay relay key add prints")
		}
	}
}

func (c *Config) checkInstances(p *Problems) {
	if u := c.Database.URL; u != "" && !hasScheme(u, "postgres", "postgresql") {
		p.add("database.url", "", "is no PostgreSQL address",
			"give postgres://user:password@host/name, or leave it empty for SQLite")
	}
	checkPair(p, "bus.cert", c.Bus.Cert, "bus.key", c.Bus.Key)
	if c.Bus.Name != "" && !instanceName.MatchString(c.Bus.Name) {
		p.add("bus.name", "", "is "+show(c.Bus.Name), "give up to 64 letters, digits, dashes and underscores")
	}
	if c.Bus.URL == "" {
		for _, f := range []struct{ key, value string }{{"bus.cert", c.Bus.Cert}, {"bus.ca", c.Bus.CA}} {
			if f.value != "" {
				p.add(f.key, "", "is given without bus.url", "give the address of NATS, or take it out")
			}
		}
		return
	}
	for server := range strings.SplitSeq(c.Bus.URL, ",") {
		if !isBusURL(strings.TrimSpace(server)) {
			p.add("bus.url", "", "is no list of NATS servers", "give nats://host:4222, or several with commas between")
			break
		}
	}
	// Each of several instances would use its own SQLite and its own key, and would not find the
	// data of the others.
	if c.Database.URL == "" {
		p.add("bus.url", "", "is given without database.url",
			"give the PostgreSQL that the instances share, or take bus.url out")
	}
	if c.Secret == "" {
		p.add("secret", "", "is not given although bus.url is", "give all instances the same secret")
	}
}

func (c *Config) checkTimes(p *Problems) {
	t := c.Turn
	if t.Heartbeat >= t.FirstPiece || t.Heartbeat >= t.Idle {
		p.add("turn.heartbeat", "", "is "+settings.FormatDuration(t.Heartbeat), "give less than turn.first_piece ("+
			settings.FormatDuration(t.FirstPiece)+") and turn.idle ("+settings.FormatDuration(t.Idle)+")")
	}
	if l := c.Lingzhu; l.WaitingText != "" && l.WaitingAfter >= t.FirstPiece {
		p.add("lingzhu.waiting_after", "", "is "+settings.FormatDuration(l.WaitingAfter), "give less than turn.first_piece ("+
			settings.FormatDuration(t.FirstPiece)+"), or lingzhu.waiting_text is never shown")
	}
}

func (c *Config) checkOutside(p *Problems) {
	if u := c.Lingzhu.PushURL; u != "" && !isWebURL(u) {
		p.add("lingzhu.push_url", "", "is "+show(u), "give an address such as https://rcs.rokid.com, or leave it empty")
	}
	if u := c.MCP.Registry; u != "" && !isWebURL(u) {
		p.add("mcp.registry", "", "is "+show(u),
			"give an address such as https://registry.modelcontextprotocol.io, or leave it empty")
	}
	if u := c.Learn.EmbeddingsURL; u != "" && !isWebURL(u) {
		p.add("learn.embeddings_url", "", "is "+show(u),
			"give an address such as https://api.openai.com/v1, or leave it empty")
	}
	c.checkOTLP(p)
	if c.Learn.EmbeddingsKey == Masked {
		p.add("learn.embeddings_key", "", "is the mask that stands for a key that is not shown", "give the key itself")
	}
	checkZone(p, "learn.time_zone", c.Learn.TimeZone)
	checkItems(p, "fetch.allow_hosts", c.Fetch.AllowHosts, isHostPattern,
		"hosts such as media.example.org, *.example.org or 192.168.1.7")
	checkItems(p, "fetch.private_hosts", c.Fetch.Private, isHostPattern,
		"hosts such as ollama.lan, *.lan or 192.168.1.7")
	checkItems(p, "lingzhu.binding_hosts", c.Lingzhu.BindingHosts, isHostPattern,
		"hosts such as *.rokidcdn.com or media.example.org")
	checkPrefixes(p, "fetch.allow_nets", c.Fetch.AllowNets)
	const names = "exact names of commands, such as camera.snap; a * stands for nothing else here"
	checkItems(p, "nodes.allow", c.Nodes.Allow, commandName.MatchString, names)
	checkItems(p, "nodes.deny", c.Nodes.Deny, commandName.MatchString, names)
}

// commandName matches the name of a node's command.
var commandName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (c *Config) checkSpeech(p *Problems) {
	s := c.Speech
	for _, a := range []struct{ key, address string }{{"speech.url", s.URL}, {"speech.speak_url", s.SpeakURL}} {
		u, err := url.Parse(a.address)
		if a.address != "" && (err != nil || u.Hostname() == "" || u.User != nil) {
			p.add(a.key, "", "is no address of a speech engine",
				"give one such as https://api.openai.com/v1, and the key in speech.key")
		}
	}
}

func (c *Config) checkBoards(p *Problems) {
	x := c.XiaoZhi
	for _, a := range []struct{ key, address string }{{"xiaozhi.mqtt", x.MQTT}, {"xiaozhi.mqtt_tls", x.MQTTTLS},
		{"xiaozhi.audio", x.Audio}} {
		if a.address != "" {
			checkAddress(p, a.key, a.address)
		}
	}
	if x.MQTTTLS != "" && !c.ServesTLS() && len(c.Relay.Servers) == 0 {
		p.add("xiaozhi.mqtt_tls", "", "is given without tls.cert, https.names or relay.servers", "give a certificate, or take it out")
	}
	if x.Transport == "mqtt" && x.MQTT+x.MQTTTLS+x.Broker+x.Join == "" {
		p.add("xiaozhi.transport", "", "is mqtt, and boards have no MQTT server",
			"give xiaozhi.mqtt and xiaozhi.audio, such as :1883 and :8884")
	}
	if a, err := netip.ParseAddr(x.AudioHost); err == nil && !a.Is4() {
		p.add("xiaozhi.audio_host", "", "is "+show(x.AudioHost),
			"give an IPv4 address, as boards know no other, or a name")
	}
	if u, err := url.Parse(x.Join); x.Join != "" && (!hasScheme(x.Join, "mqtt", "mqtts", "ws", "wss") || err != nil ||
		u.Hostname() == "" || u.User != nil) {
		p.add("xiaozhi.join", "", "is no MQTT broker",
			"give mqtt://host or mqtts://host, and the user in xiaozhi.join_user")
	}
	for _, s := range []struct{ key, secret string }{{"xiaozhi.join_password", x.JoinPass},
		{"xiaozhi.join_secret", x.JoinKey}, {"speech.key", c.Speech.Key}, {"speech.speak_key", c.Speech.SpeakKey}} {
		if s.secret == Masked {
			p.add(s.key, "", "is the mask that stands for a secret that is not shown", "give the secret itself")
		}
	}
	for _, origin := range x.Origins {
		u, err := url.Parse(origin)
		if origin != "*" && origin != "null" && (err != nil || !hasScheme(origin, "http", "https") || u.Host == "" ||
			u.User != nil || origin != u.Scheme+"://"+u.Host) {
			p.add("xiaozhi.origins", "", "is "+show(origin),
				"give origins such as https://talk.example.org, without a path, or * for any page")
		}
	}
	checkZone(p, "xiaozhi.time_zone", x.Zone)
	c.checkSpeech(p)
}

func checkZone(p *Problems, key, zone string) {
	if zone == "" {
		return
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		p.add(key, "", "is "+show(zone), "give a time zone such as Asia/Shanghai or Europe/Berlin, or leave it empty")
	}
}

// instanceName matches what may be part of a bus subject.
var instanceName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// hostPattern matches a host name whose last label begins with a letter, so that a misspelt address
// is not taken for a name.
var hostPattern = regexp.MustCompile(`^(?i:(\*\.)?([a-z0-9_]([a-z0-9_-]{0,62})\.)*[a-z]([a-z0-9-]{0,62}))$`)

func isHostPattern(text string) bool {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Zone() == ""
	}
	return len(text) <= maxHost && hostPattern.MatchString(text)
}

func checkAddress(p *Problems, key, addr string) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsAny(host, " /@") {
		p.add(key, "", "is "+show(addr), "give address and port such as 127.0.0.1:3000, or :3000 for every address")
	}
}

// checkPair reports a problem if only one of two settings that depend on each other is given.
func checkPair(p *Problems, keyA, a, keyB, b string) {
	switch {
	case a != "" && b == "":
		p.add(keyA, "", "is given without "+keyB, "give both, or neither")
	case a == "" && b != "":
		p.add(keyB, "", "is given without "+keyA, "give both, or neither")
	}
}

func checkPrefixes(p *Problems, key string, texts []string) {
	checkItems(p, key, texts, func(text string) bool {
		_, err := ParsePrefix(text)
		return err == nil
	}, "addresses or ranges such as 192.168.1.7 or 10.0.0.0/8")
}

func checkItems(p *Problems, key string, items []string, valid func(string) bool, wanted string) {
	wrong := 0
	for _, item := range items {
		if valid(item) {
			continue
		}
		if wrong++; wrong > maxItems {
			p.add(key, "", "holds more that is wrong", "give "+wanted)
			return
		}
		p.add(key, "", "holds "+show(item), "give "+wanted)
	}
}

// hasScheme checks the scheme only: the rest may have forms that only the driver knows, such as
// several hosts.
func hasScheme(address string, schemes ...string) bool {
	scheme, rest, ok := strings.Cut(address, "://")
	return ok && rest != "" && slices.Contains(schemes, strings.ToLower(scheme))
}

func isBusURL(text string) bool {
	if !hasScheme(text, "nats", "tls", "ws", "wss") {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != ""
}

func isWebURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") &&
		u.Hostname() != "" && u.User == nil && u.RawQuery == "" && !u.ForceQuery && u.Fragment == ""
}

// isOrigin allows no path, because pages and devices are served from the root.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return isWebURL(text) && err == nil && u.Path == ""
}

// ParsePrefix parses a range ("10.0.0.0/8") or a single address ("10.1.2.3"), which becomes a range
// of one. Host bits are cleared. Zones and IPv4-mapped IPv6 addresses are errors, because they
// would match no connection's address.
func ParsePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		var a netip.Addr
		if a, err = netip.ParseAddr(text); err == nil && a.Zone() != "" {
			err = errors.New("zone")
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%s is no address or range", show(text))
	}
	return p.Masked(), nil
}

// ParsePrefixes calls [ParsePrefix] for each item of a list, such as [Config].Proxies.
func ParsePrefixes(texts []string) ([]netip.Prefix, error) {
	list := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		p, err := ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// secretProblem returns what is wrong with a secret, without repeating it. Hex or base64 is
// required, because secrets that people invent can be guessed.
func secretProblem(text string) string {
	key, err := hex.DecodeString(text)
	if err != nil {
		text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		key, err = base64.RawStdEncoding.DecodeString(text)
	}
	switch {
	case err != nil:
		return "is neither hex nor base64"
	case len(key) < minSecret:
		return fmt.Sprintf("is shorter than %d bytes", minSecret)
	}
	return ""
}
