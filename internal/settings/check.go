package settings

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"patchbay/internal/i18n"
)

const (
	msgCredential  = i18n.Message("%s has a line break, a space at an end or another invalid character; copy it again")
	msgHeaderName  = i18n.Message("headers: %q cannot be the name of a header")
	msgHeaderOwn   = i18n.Message("headers: %s cannot be set; take it out")
	msgHeaderValue = i18n.Message("headers: the value of %s has a line break or a control character")
	msgAddress     = i18n.Message("%s is not a web address; it has to look like %s")
	msgAddressUser = i18n.Message("%s holds a user name or password; put the secret into %s instead")
)

// reservedHeaders are headers that are derived from the body or control the connection.
var reservedHeaders = []string{"content-length", "content-type", "host", "connection", "transfer-encoding",
	"accept-encoding"}

// CheckHeaders checks a setting named headers, which has no reserved headers; more, in lower case,
// are reserved by the protocol.
func CheckHeaders(headers map[string]string, more ...string) error {
	for name, value := range headers {
		lower := strings.ToLower(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return msgHeaderName.Errorf(name)
		case slices.Contains(reservedHeaders, lower) || slices.Contains(more, lower):
			return msgHeaderOwn.Errorf(name)
		case !httpguts.ValidHeaderFieldValue(value):
			return msgHeaderValue.Errorf(name)
		}
	}
	return nil
}

// CheckCredential checks that a setting, such as token, can be sent in a header.
func CheckCredential(name, value string) error {
	if !httpguts.ValidHeaderFieldValue(value) || strings.TrimSpace(value) != value {
		return msgCredential.Errorf(name)
	}
	return nil
}

// ParseAddress parses a setting that is a web address. Like is an example of one, and secret the
// setting in which its secret belongs. Errors do not quote it: an address may contain a secret.
func ParseAddress(name, value, like, secret string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(value))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, msgAddress.Errorf(name, like)
	}
	if u.User != nil {
		return nil, msgAddressUser.Errorf(name, secret)
	}
	return u, nil
}
