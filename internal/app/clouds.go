package app

import (
	"errors"
	"fmt"
	"net/url"

	"patchbay/internal/board"
)

const (
	// mostCloudTools catches a number that no such service takes.
	mostCloudTools = 1000
	// maxCloudPatterns bounds the look at a list of tools.
	maxCloudPatterns = 200
)

// CloudSettings say which service calls our tools, and which of them. They hold
// a secret.
type CloudSettings struct {
	// URL is the service's address, wss://…, with its token.
	URL string `json:"url" secret:"true"`
	// Allow and Deny choose among the owner's tools, by full names and patterns in
	// which * stands for any text. Allow is needed: nothing is offered that was
	// not named. Deny counts more.
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
	// Most is how many tools are offered at most. 0 means 32.
	Most int `json:"most,omitempty"`
}

// Validate finds what is wrong with the settings. It tells no secret.
func (s *CloudSettings) Validate() error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "wss" && u.Scheme != "ws" || u.Host == "" || u.User != nil {
		// Not shown: the address holds a token.
		return errors.New("url has to look like wss://api.example.com/mcp/?token=…; copy it from the service's console")
	}
	if len(s.Allow) == 0 {
		return errors.New("allow is missing: name the tools that the service may call, such as lamp_*; * allows all")
	}
	if len(s.Allow) > maxCloudPatterns || len(s.Deny) > maxCloudPatterns {
		return fmt.Errorf("allow and deny take %d patterns each; * stands for any text", maxCloudPatterns)
	}
	for _, list := range [][]string{s.Allow, s.Deny} {
		for _, p := range list {
			if err := board.CheckPattern(p); err != nil {
				return err
			}
		}
	}
	if s.Most < 0 || s.Most > mostCloudTools {
		return fmt.Errorf("most is %d; choose between 1 and %d", s.Most, mostCloudTools)
	}
	return nil
}

// where is the address without its query, which may be shown.
func (s *CloudSettings) where() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
