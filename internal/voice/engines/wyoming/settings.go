package wyoming

import (
	"net"
	"strconv"
	"strings"

	"patchbay/internal/i18n"
)

// Settings define the server. Address is required.
type Settings struct {
	// Address is the host and the port of the server, as in wyoming://localhost:10300. The scheme
	// may be left out, and the port if it is 10300.
	Address string `json:"address"`
	// ListenModel is the name of the model that listens. Empty means that of the server.
	ListenModel string `json:"listen_model,omitempty"`
	// Voice is the name of the voice. Empty means one of the language, if there is one.
	Voice string `json:"voice,omitempty"`
	// Speaker is the name of a speaker of the voice; few voices have several.
	Speaker string `json:"speaker,omitempty"`
}

const (
	// scheme is that of addresses in the configuration.
	scheme = "wyoming"
	// defaultPort is that of recognisers (rhasspy/wyoming-faster-whisper README.md).
	defaultPort = ":10300"
)

const (
	msgAddress = i18n.Message("address is not that of a Wyoming server; it has to look like wyoming://localhost:10300")
	msgSpeaker = i18n.Message("speaker is only for a voice; give the voice, too")
)

// Validate returns an error that explains what is invalid and how to fix it.
func (s *Settings) Validate() error {
	if _, ok := s.host(); !ok {
		return msgAddress.Errorf()
	}
	if s.Speaker != "" && s.Voice == "" {
		return msgSpeaker.Errorf()
	}
	return nil
}

// host returns the host with its port.
func (s *Settings) host() (string, bool) {
	address := strings.TrimPrefix(strings.TrimSpace(s.Address), scheme+"://")
	address, _, _ = strings.Cut(address, "/")
	if !strings.Contains(address, ":") {
		address += defaultPort
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsAny(host, "@?# ") {
		return "", false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return address, err == nil && n > 0
}
