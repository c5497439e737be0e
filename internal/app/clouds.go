package app

import (
	"net/url"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
)

const (
	// mostCloudTools limits Most. No such service accepts more tools.
	mostCloudTools = 1000
	// maxCloudPatterns limits each list of patterns.
	maxCloudPatterns = 200
)

// CloudSettings state which service may call our tools, and which of them. They contain a secret.
type CloudSettings struct {
	// URL is the service's address, wss://…, including its token.
	URL string `json:"url" secret:"true"`
	// Allow and Deny select from the owner's tools, by full names and patterns in which * stands
	// for any text. Allow is required: only named tools are offered. Deny takes precedence.
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
	// Most limits how many tools are offered. 0 means 32.
	Most int `json:"most,omitempty"`
}

// Messages about invalid cloud settings.
const (
	msgCloudURL      = i18n.Message("url has to look like wss://api.example.com/mcp/?token=…; copy it from the service's console")
	msgCloudAllow    = i18n.Message("allow is missing: name the tools that the service may call, such as lamp_*; * allows all")
	msgCloudPatterns = i18n.Message("allow and deny take %d patterns each; * stands for any text")
	msgCloudMost     = i18n.Message("most is %d; choose between 1 and %d")
)

// Validate returns what is wrong with the settings. The error contains no secret.
func (s *CloudSettings) Validate() error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "wss" && u.Scheme != "ws" || u.Host == "" || u.User != nil {
		// Do not show the address: it contains a token.
		return msgCloudURL.Errorf()
	}
	if len(s.Allow) == 0 {
		return msgCloudAllow.Errorf()
	}
	if len(s.Allow) > maxCloudPatterns || len(s.Deny) > maxCloudPatterns {
		return msgCloudPatterns.Errorf(maxCloudPatterns)
	}
	for _, list := range [][]string{s.Allow, s.Deny} {
		for _, p := range list {
			if err := hub.CheckPattern(p); err != nil {
				return err
			}
		}
	}
	if s.Most < 0 || s.Most > mostCloudTools {
		return msgCloudMost.Errorf(s.Most, mostCloudTools)
	}
	return nil
}

// where returns the address without its query, so that it can be shown.
func (s *CloudSettings) where() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
