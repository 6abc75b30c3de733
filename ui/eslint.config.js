// SPDX-License-Identifier: Apache-2.0
import js from "@eslint/js";
import a11y from "eslint-plugin-jsx-a11y";
import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

/** What screens show comes from src/text, and numbers and times are those of the chosen language. */
const WORDS = "[value=/[A-Za-z]{2}/]";
const outsideTheCatalogue = [
  `JSXText${WORDS}`,
  `JSXExpressionContainer > Literal${WORDS}:not(JSXAttribute *)`,
  `JSXExpressionContainer > TemplateLiteral:not(JSXAttribute *) > TemplateElement[value.raw=/[A-Za-z]{2}/]`,
  `JSXAttribute[name.name=/^(alt|body|help|lead|placeholder|shown|title|what|.*[lL]abel|.*Text)$/] > Literal${WORDS}`,
].map((selector) => ({ selector, message: "Visible text belongs in src/text." }));
const withoutLocale = [
  "CallExpression[callee.property.name=/^toLocale/][arguments.length=0]",
  "NewExpression[callee.object.name='Intl'] > Identifier[name='undefined']",
].map((selector) => ({ selector, message: "Use src/format, or chosen.locale." }));

export default tseslint.config(
  { ignores: ["site/", "src/api/schema.d.ts"] },
  js.configs.recommended,
  {
    files: ["**/*.{ts,tsx}"],
    extends: [...tseslint.configs.strictTypeChecked, ...tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/only-throw-error": "error",
    },
  },
  {
    files: ["src/**/*.tsx"],
    plugins: { "react-hooks": hooks },
    extends: [a11y.flatConfigs.strict],
    rules: {
      "react-hooks/rules-of-hooks": "error",
      "react-hooks/exhaustive-deps": "error",
      "no-restricted-syntax": ["error", ...outsideTheCatalogue, ...withoutLocale],
    },
  },
  { files: ["src/**/*.ts"], rules: { "no-restricted-syntax": ["error", ...withoutLocale] } },
  { files: ["build/*.js", "eslint.config.js"], languageOptions: { globals: { URL: "readonly" } } },
);
