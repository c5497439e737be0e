package config

import (
	"net"
	"net/mail"
	"regexp"
	"slices"
	"strings"
)

// certName matches a name that a public authority can give a certificate for: at least two labels,
// and no wildcard.
var certName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// base64URL matches base64url, with or without padding.
var base64URL = regexp.MustCompile(`^[A-Za-z0-9_-]+=*$`)

func (c *Config) checkHTTPS(p *Problems) {
	h := c.HTTPS
	checkItems(p, "https.names", h.Names, func(name string) bool {
		return len(name) <= maxHost && certName.MatchString(name)
	}, "names such as board.example.org; certificates are for names that others can resolve")
	checkPair(p, "https.eab_kid", h.EABKeyID, "https.eab_key", h.EABKey)
	switch {
	case h.EABKey == Masked:
		p.add("https.eab_key", "", "is the mask that stands for a secret that is not shown", "give the secret itself")
	case h.EABKey != "" && !base64URL.MatchString(h.EABKey):
		p.add("https.eab_key", "", "is no base64url", "give the key as the authority shows it")
	}
	if a, err := mail.ParseAddress(h.Email); h.Email != "" && (err != nil || a.Address != h.Email) {
		p.add("https.email", "", "is "+show(h.Email), "give an address such as anna@example.org, or leave it empty")
	}
	if !isWebURL(h.Directory) || !strings.HasPrefix(h.Directory, "https://") {
		p.add("https.directory", "", "is "+show(h.Directory), "give an https address")
	}
	if h.Redirect != "" {
		checkAddress(p, "https.redirect", h.Redirect)
	}
	if len(h.Names) > 0 {
		c.checkAutomatic(p)
	}
}

// checkAutomatic checks what is only wrong with automatic certificates.
func (c *Config) checkAutomatic(p *Problems) {
	h := c.HTTPS
	if c.TLS.Cert != "" || c.TLS.Key != "" {
		p.add("https.names", "", "is given together with tls.cert",
			"give certificates in files, or names to get them for")
	}
	if h.Challenge == "dns-01" && len(h.DNSCommand) == 0 {
		p.add("https.challenge", "", "is dns-01 without https.dns_command", "give the program that changes the DNS")
	}
	if h.Challenge == "http-01" && h.Redirect == "" {
		p.add("https.challenge", "", "is http-01 without https.redirect", "give the address, such as :80")
	}
	_, port, err := net.SplitHostPort(h.Redirect)
	if _, other, wrong := net.SplitHostPort(c.Listen); err == nil && wrong == nil && port == other && port != "0" &&
		slices.Contains([]string{c.Listen, ":" + port}, h.Redirect) {
		p.add("https.redirect", "", "is the same as listen", "give another port, or leave it empty")
	}
}
