package wire

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// Address is the address of a server, as a board parses it.
type Address struct {
	TLS  bool
	Host string
	Port int
	Path string // begins with a slash; includes the query
}

// HostPort returns the address for a dialer.
func (a Address) HostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// ParseSocketURL parses a WebSocket URL as boards do. Their parser takes the first colon for the
// port separator, wherever it is, and supports neither userinfo nor IPv6 (esp-ml307
// src/web_socket.cc, WebSocket::Connect).
func ParseSocketURL(s string) (Address, error) {
	var a Address
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case ok && scheme == "ws":
		a.Port = 80
	case ok && scheme == "wss":
		a.TLS, a.Port = true, 443
	default:
		return a, errors.New("it does not begin with ws:// or wss://")
	}
	return a, a.fill(rest, true)
}

// ParseHTTPURL parses the URL of an OTA request, a picture or firmware.
func ParseHTTPURL(s string) (Address, error) {
	var a Address
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case ok && scheme == "http":
		a.Port = 80
	case ok && scheme == "https":
		a.TLS, a.Port = true, 443
	default:
		return a, errors.New("it does not begin with http:// or https://")
	}
	return a, a.fill(rest, false)
}

func (a *Address) fill(rest string, firstColon bool) error {
	host, path, hasPath := strings.Cut(rest, "/")
	a.Path = "/" + path
	switch {
	case strings.Contains(host, "@"):
		return errors.New("it has a user")
	case strings.Contains(host, "["):
		return errors.New("it has an IPv6 address")
	case strings.ContainsAny(host, "?#"):
		return errors.New("there is no slash after the host")
	}
	name, port, hasPort := strings.Cut(host, ":")
	if firstColon && !hasPort && strings.Contains(path, ":") {
		return errors.New("there is a colon in the path and no port before it")
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return errors.New("the port is no number")
		}
		if firstColon && !hasPath {
			return errors.New("there is a port and no slash after it")
		}
		a.Port = int(n)
	}
	if name == "" {
		return errors.New("there is no host")
	}
	for i := range len(rest) {
		if rest[i] <= ' ' || rest[i] == 0x7f {
			return errors.New("there is a space or a control character in it")
		}
	}
	a.Host = name
	return nil
}

// ParseEndpoint parses the address of an MQTT broker: a host, perhaps with a port. Boards use TLS
// on port 8883, which is the default, and on no other port (xiaozhi-esp32
// main/protocols/mqtt_protocol.cc, MqttProtocol::StartMqttClient).
func ParseEndpoint(s string) (a Address, err error) {
	host, port, ok := strings.Cut(s, ":")
	a.Host, a.Port = host, 8883
	if ok {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return a, errors.New("the port is no number")
		}
		a.Port = int(n)
	}
	if host == "" {
		return a, errors.New("there is no host")
	}
	a.TLS = a.Port == 8883
	return a, nil
}
