package config

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
)

// checkOTLP checks the settings of traces.
func (c *Config) checkOTLP(p *Problems) {
	o := c.OTLP
	if o.URL != "" && !isWebURL(o.URL) {
		p.add("otlp.url", "", "is "+show(o.URL), "give an address such as http://localhost:4318, or leave it empty")
	}
	_, err := ParseHeaders(o.Headers)
	switch {
	case o.Headers == Masked:
		p.add("otlp.headers", "", "is the mask that stands for a secret that is not shown", "give the secret itself")
	case o.Headers != "" && o.URL == "":
		p.add("otlp.headers", "", "is given without otlp.url", "give the address of the collector, or take it out")
	case err != nil:
		p.add("otlp.headers", "", err.Error(), "give name=value, separated by commas")
	}
}

var errHeaders = errors.New("is no list of headers")

// ParseHeaders reads headers in the form of OTEL_EXPORTER_OTLP_HEADERS (OpenTelemetry
// Specification, "Specifying headers via environment variables"): name=value, separated by commas.
// Values may be percent-encoded. Errors do not repeat them.
func ParseHeaders(text string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || name == "" || strings.ContainsFunc(name, isNoToken) ||
			strings.ContainsFunc(value, unicode.IsControl) {
			return nil, errHeaders
		}
		out[name] = value
	}
	return out, nil
}

// isNoToken reports whether a character cannot be in the name of a header (RFC 9110 §5.6.2).
func isNoToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}
