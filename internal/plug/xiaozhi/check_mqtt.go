package xiaozhi

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

const (
	msgCheckMQTT  = i18n.Message("MQTT for boards")
	msgMQTTOff    = i18n.Message("is off: boards can be reached only while somebody talks with them")
	msgMQTTGood   = i18n.Message("boards connect to port %d")
	msgMQTTTLS    = i18n.Message("boards connect to port %d with TLS")
	msgMQTTPlain  = i18n.Message("boards would speak without TLS to the port %d, which wants it")
	msgMQTTSecret = i18n.Message("boards would speak TLS to port 8883, which has none")
	msgMQTTMute   = i18n.Message("there is no UDP port for sound: boards on MQTT cannot talk")
	msgPortHere   = i18n.Message("%s can be reached from this machine only")

	advicePort    = i18n.Message("Boards have to reach it: give the port alone, such as :1883.")
	adviceMQTTTLS = i18n.Message("Boards use TLS on port 8883 alone: give mqtt_tls :8883 and a public certificate, and mqtt another port.")
	adviceAudio   = i18n.Message("Set xiaozhi.audio, such as :8884, and let UDP through the firewall.")
)

const (
	plainPort = 1883 // of MQTT without TLS, if none is given
	tlsPort   = 8883 // the only port on which boards use TLS
)

// mqttPort returns the port that the server announces to boards.
func (o *CheckOptions) mqttPort() int {
	if o.Broker != "" {
		a, _ := wire.ParseEndpoint(o.Broker) // errors are reported elsewhere
		return a.Port
	}
	if u, err := url.Parse(o.Join); o.Join != "" && err == nil {
		switch port, _ := strconv.Atoi(u.Port()); {
		case port != 0:
			return port
		case u.Scheme == "mqtts" || u.Scheme == "wss":
			return tlsPort
		}
		return plainPort
	}
	if o.MQTTTLS != "" {
		return portOf(o.MQTTTLS)
	}
	return portOf(o.MQTT)
}

// portOf returns the port of a listen address; 0 means any free one.
func portOf(address string) int {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	return port
}

// checkMQTT checks that boards use MQTT as the server expects.
func (c *checker) checkMQTT() {
	name := msgCheckMQTT.With()
	if !c.hasMQTT() {
		wanted := slices.ContainsFunc(c.boards, func(d store.Device) bool { return d.Transport == store.TransportMQTT })
		if c.Transport != store.TransportMQTT && !wanted { // reported elsewhere
			c.OK(name, msgMQTTOff.With())
		}
		return
	}
	port := c.mqttPort()
	theirs := c.Broker != "" || c.Join != "" // the broker may have any settings
	switch {
	case c.MQTTTLS != "" && port != tlsPort && !theirs:
		c.Fail(name, msgMQTTPlain.With(port), adviceMQTTTLS.With())
	case c.MQTTTLS == "" && port == tlsPort && !theirs:
		c.Fail(name, msgMQTTSecret.With(), adviceMQTTTLS.With())
	case c.Audio == "":
		c.Fail(name, msgMQTTMute.With(), adviceAudio.With())
	case !theirs && c.MQTTTLS == "" && isLoopback(c.MQTT):
		c.Warn(name, msgPortHere.With(c.MQTT), advicePort.With())
	case port == tlsPort:
		c.OK(name, msgMQTTTLS.With(port))
	default:
		c.OK(name, msgMQTTGood.With(port))
	}
}

const (
	msgCheckSound   = i18n.Message("sound of boards")
	msgSoundNowhere = i18n.Message("boards connect to another MQTT server, and cannot be told where their sound goes")
	msgSoundNAT     = i18n.Message("%s is not an address of this machine (NAT, or a proxy): boards would be told an inner one")
	msgSoundGood    = i18n.Message("UDP %s")
	adviceSound     = i18n.Message("Set xiaozhi.audio_host to the IPv4 address at which boards reach the UDP port.")
)

// checkSound checks that boards can be given an address for audio.
func (c *checker) checkSound(ctx context.Context) {
	if c.Audio == "" {
		return
	}
	name := msgCheckSound.With()
	if isLoopback(c.Audio) {
		c.Warn(name, msgPortHere.With(c.Audio), advicePort.With())
		return
	}
	if c.Join != "" && c.AudioHost == "" {
		c.Fail(name, msgSoundNowhere.With(), adviceSound.With())
		return
	}
	u, err := url.Parse(c.PublicURL)
	if err == nil && c.AudioHost == "" && c.PublicURL != "" && isOtherHost(ctx, u.Hostname()) {
		c.Warn(name, msgSoundNAT.With(u.Hostname()), adviceSound.With())
		return
	}
	port := c.AudioPort
	if port == 0 {
		port = portOf(c.Audio)
	}
	c.OK(name, msgSoundGood.With(net.JoinHostPort(c.AudioHost, strconv.Itoa(port))))
}

// isOtherHost reports whether a host is known to have none of this machine's addresses.
func isOtherHost(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
	own, err2 := net.InterfaceAddrs()
	if err != nil || err2 != nil || len(found) == 0 {
		return false
	}
	return !slices.ContainsFunc(found, func(a netip.Addr) bool {
		return slices.ContainsFunc(own, func(o net.Addr) bool {
			n, ok := o.(*net.IPNet)
			return ok && n.IP.Equal(a.Unmap().AsSlice())
		})
	})
}
