# Prints C sources as FILE:LINE:TEXT with comments and the insides of literals blanked. A line whose comment says
# `allow NAME:` with a reason gets the mark @allow(NAME) at its end.
FNR == 1 { comment = 0 }
{
    line = $0
    out = ""
    mark = match(line, /allow [a-z_]+:/) ? "@allow(" substr(line, RSTART + 6, RLENGTH - 7) ")" : ""
    quote = ""
    length_of_line = length(line)
    for (i = 1; i <= length_of_line; i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (comment) {
            if (two == "*/") { comment = 0; i++ }
        } else if (quote != "") {
            if (c == "\\") i++
            else if (c == quote) { quote = ""; out = out c }
        } else if (two == "/*") { comment = 1; i++; out = out " " }
        else if (two == "//") break
        else { if (c == "\"" || c == "'") quote = c; out = out c }
    }
    if (out !~ /^[ \t]*$/) print FILENAME ":" FNR ":" out " " mark
}
