package qr

import (
	"fmt"
	"io"
	"strings"
)

// TerminalOptions configure [Code.Terminal].
type TerminalOptions struct {
	// Plain means no colours: for NO_COLOR, and for output that is no terminal. Light modules are
	// printed as filled blocks, which is correct for light text on a dark background. Elsewhere the
	// code is inverted, which most readers accept, including [Decode].
	Plain bool
}

// Black on white, from the fixed part of the 256 colours (xterm): themes often change the first
// sixteen.
const (
	blackOnWhite = "\x1b[38;5;16;48;5;231m"
	resetColours = "\x1b[0m"
)

// Terminal prints the code with its quiet zone, two modules per character, so that it is square:
// Size()+8 columns and half as many lines. Unless Plain is set, it is black on white on dark and
// light terminals alike.
func (c *Code) Terminal(w io.Writer, o TerminalOptions) error {
	// Inked modules are drawn in the foreground colour.
	inked, before, after := c.Dark, blackOnWhite, resetColours
	if o.Plain {
		inked, before, after = func(x, y int) bool { return !c.Dark(x, y) }, "", ""
	}
	var b strings.Builder
	for y := -QuietZone; y < c.size+QuietZone; y += 2 {
		b.WriteString(before)
		for x := -QuietZone; x < c.size+QuietZone; x++ {
			b.WriteRune(halfBlock(inked(x, y), inked(x, y+1)))
		}
		b.WriteString(after + "\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("qr: printing: %w", err)
	}
	return nil
}

func halfBlock(top, bottom bool) rune {
	switch {
	case top && bottom:
		return '█'
	case top:
		return '▀'
	case bottom:
		return '▄'
	}
	return ' '
}
