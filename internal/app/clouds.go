package app

import (
	"net/url"

	"patchbay/internal/board"
	"patchbay/internal/talk"
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

// What is wrong with the settings of a cloud.
var (
	sayCloudURL = talk.Say{
		Zh: "url 要像 wss://api.example.com/mcp/?token=… 这样；请从该服务的控制台复制",
		En: "url has to look like wss://api.example.com/mcp/?token=…; copy it from the service's console",
	}
	sayCloudAllow = talk.Say{
		Zh: "allow 没有填写：请写出该服务可以调用的工具，例如 lamp_*；* 允许全部",
		En: "allow is missing: name the tools that the service may call, such as lamp_*; * allows all",
	}
	sayCloudPatterns = talk.Say{Zh: "allow 和 deny 各最多 %d 个模式；* 代表任意文本", En: "allow and deny take %d patterns each; * stands for any text"}
	sayCloudMost     = talk.Say{Zh: "most 是 %d；请选择 1 到 %d", En: "most is %d; choose between 1 and %d"}
)

// Validate finds what is wrong with the settings. It tells no secret.
func (s *CloudSettings) Validate() error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "wss" && u.Scheme != "ws" || u.Host == "" || u.User != nil {
		// Not shown: the address holds a token.
		return sayCloudURL.Wrong()
	}
	if len(s.Allow) == 0 {
		return sayCloudAllow.Wrong()
	}
	if len(s.Allow) > maxCloudPatterns || len(s.Deny) > maxCloudPatterns {
		return sayCloudPatterns.Wrong(maxCloudPatterns)
	}
	for _, list := range [][]string{s.Allow, s.Deny} {
		for _, p := range list {
			if err := board.CheckPattern(p); err != nil {
				return err
			}
		}
	}
	if s.Most < 0 || s.Most > mostCloudTools {
		return sayCloudMost.Wrong(s.Most, mostCloudTools)
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
