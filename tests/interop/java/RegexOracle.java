import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Whether patterns are found in names: one line {@code true}, {@code false} or {@code error} for each
 * line of input, which has a pattern and a name, parted by a tab.
 */
public final class RegexOracle {
    private RegexOracle() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            try {
                out.println(Pattern.compile(words[0]).matcher(words[1]).find());
            } catch (PatternSyntaxException error) {
                out.println("error");
            }
        }
        out.flush();
    }
}
