package jsonrpc

// Depth returns the nesting depth of arrays and objects. It accepts invalid JSON, because it is
// called before parsing.
func Depth(b []byte) (deepest int) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > deepest {
				deepest = depth
			}
		case '}', ']':
			depth--
		}
	}
	return deepest
}
