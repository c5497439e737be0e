package app

import (
	"net/url"

	"patchbay/internal/hub"
	"patchbay/internal/talk"
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
var (
	sayCloudURL = talk.Say{
		Zh: "url 要像 wss://api.example.com/mcp/?token=… 这样；请从该服务的控制台复制",
		En: "url has to look like wss://api.example.com/mcp/?token=…; copy it from the service's console",
	}
	sayCloudAllow = talk.Say{
		Zh: "allow 没有填写：请写出该服务可以调用的工具，例如 lamp_*；* 允许全部",
		En: "allow is missing: name the tools that the service may call, such as lamp_*; * allows all",
	}
	sayCloudPatterns = talk.Say{Zh: "allow 和 deny 各最多 %d 个模式；* 代表任意文本",
		En: "allow and deny take %d patterns each; * stands for any text"}
	sayCloudMost = talk.Say{Zh: "most 是 %d；请选择 1 到 %d", En: "most is %d; choose between 1 and %d"}
)

// Validate returns what is wrong with the settings. The error contains no secret.
func (s *CloudSettings) Validate() error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "wss" && u.Scheme != "ws" || u.Host == "" || u.User != nil {
		// Do not show the address: it contains a token.
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
			if err := hub.CheckPattern(p); err != nil {
				return err
			}
		}
	}
	if s.Most < 0 || s.Most > mostCloudTools {
		return sayCloudMost.Wrong(s.Most, mostCloudTools)
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
