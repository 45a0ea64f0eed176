"""A recorded step as a page: groups side by side, tokens coloured by their credit."""

from gtpo_lit.credit_page.page import credit_page, write_credit_page

__all__ = ["credit_page", "write_credit_page"]
