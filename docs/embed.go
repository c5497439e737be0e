// Package docs holds the pages of the manual as they are in this folder. Package manual shows them.
package docs

import "embed"

// Files are the pages, NAME.md in English and NAME.TAG.md in the language of a tag, and their
// pictures.
//
//go:embed *.md *.svg img
var Files embed.FS
